"""What the engine may expect of every method."""

import random
from dataclasses import asdict

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.engine import small
from xcnorm.data import transforms
from xcnorm.engine.checkpoint import load_checkpoint, save_checkpoint
from xcnorm.errors import UserError
from xcnorm.methods import Method, find_method, list_methods, register_method
from xcnorm.models import Wiring

METHODS = list_methods()


def network() -> nn.Module:
    torch.manual_seed(0)
    model = small.tiny(Wiring("conv", "batch"), 3, 3)
    return nn.Sequential(*(m for m in model.trunk if not isinstance(m, nn.Dropout)), model.classifier)


def batch(count=24):
    source = small.domain("train", count, 16)
    return transforms.normalise(transforms.grey_to_rgb(source.images), 0.5, 0.5), source.labels


def losses(method, steps, generator, model=None):
    model = model or network()
    method.prepare(model)
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    images, labels = batch()
    found = []
    for step in range(steps):
        optimiser.zero_grad()
        loss = method.training_step(model, images, labels, generator)
        assert loss.shape == ()
        loss.backward()
        optimiser.step()
        found.append(loss.item())
        if step % 5 == 4:
            method.end_epoch(model, step // 5 + 1, generator)
    return found


@pytest.fixture(params=METHODS)
def kind(request):
    return find_method(request.param)


def test_it_learns_the_source(kind):
    """By the cross-entropy of the images themselves: a method's own loss may well rise at first."""
    model, (images, labels) = network(), batch()
    before = F.cross_entropy(model(images), labels).item()
    assert np.isfinite(losses(kind.make({}), 30, torch.Generator().manual_seed(0), model)).all()
    assert F.cross_entropy(model(images), labels).item() < 0.8 * before


def test_everything_random_comes_from_the_generator(kind):
    def state():
        return random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist()

    method, model = kind.make({}), network()
    before = state()
    losses(method, 3, torch.Generator().manual_seed(0), model)
    assert state() == before


def test_a_seed_decides_the_loss(kind):
    first, second = (losses(kind.make({}), 4, torch.Generator().manual_seed(1)) for _ in range(2))
    assert first == second
    if not kind.capturable:
        assert losses(kind.make({}), 4, torch.Generator().manual_seed(2)) != first


def test_a_capturable_method_draws_nothing(kind):
    if kind.capturable:
        generator = torch.Generator().manual_seed(0)
        before = generator.get_state()
        losses(kind.make({}), 2, generator)
        assert torch.equal(generator.get_state(), before)


def test_the_state_comes_back(kind, tmp_path):
    """After three steps a method that is loaded from a file gives the losses that the one that was saved gives."""
    method, generator, model = kind.make({}), torch.Generator().manual_seed(0), network()
    losses(method, 3, generator, model)
    save_checkpoint(tmp_path, 3, {"method": method.state_dict(), "generator": generator.get_state()})
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    expected = losses(method, 3, generator, model)
    _, state = load_checkpoint(tmp_path)
    other, again = kind.make({}), torch.Generator()
    model.load_state_dict(weights)
    other.prepare(model)
    other.load_state_dict(state["method"])
    again.set_state(state["generator"])
    assert losses(other, 3, again, model) == expected


def test_defaults_are_settings_that_can_be_given(kind):
    values = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(kind.make({})).items()}
    kind.check(values)
    assert kind.make(values) == kind.make({})
    with pytest.raises(UserError, match=f"unknown option of method {kind.name} 'strngth'"):
        kind.check({"strngth": 1})


def test_names_are_unique(kind):
    assert find_method(kind.name) is kind
    with pytest.raises(ValueError, match=f"method '{kind.name}' is registered already"):

        @register_method(kind.name)
        class Other(Method):
            pass


def test_unknown_names_are_one_line():
    with pytest.raises(UserError, match=r"unknown method 'em'; did you mean 'erm'\?"):
        find_method("em")
