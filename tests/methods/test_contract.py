"""What the engine may expect of every method."""

import random
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from tests.engine.small import experiment
from tests.methods import small
from xcnorm.engine.checkpoint import load_checkpoint, save_checkpoint
from xcnorm.errors import UserError
from xcnorm.methods import Augmentation, Method, find_augmentation, find_method, list_methods, register_method

METHODS = list_methods()


@pytest.fixture(params=METHODS)
def name(request):
    return request.param


def source_loss(trainer):
    images, labels = trainer.images.take(torch.arange(trainer.images.source_size))
    with torch.no_grad():
        return F.cross_entropy(trainer.model(images), labels).item()


def test_it_learns_the_source(name):
    """By the cross-entropy of the images themselves: a method's own loss may well rise at first."""
    trainer = small.trainer(name)
    before = source_loss(trainer)
    assert np.isfinite(small.losses(trainer, 40)).all()
    assert source_loss(trainer) < 0.8 * before


def test_going_on_from_anywhere_changes_nothing(name, tmp_path):
    """Also from the middle of what a method does between steps: the state is taken before every piece of work."""
    whole, found, places = small.trainer(name), [], []
    while whole.step < 12:
        if len(found) % 3 == 0 or whole.objective.method.pending():
            places.append((len(found), whole.step))
            save_checkpoint(tmp_path / str(len(found)), whole.step, whole.state_dict())
        loss = whole.advance()
        found.append(None if loss is None else loss.item())
    chosen = places[:: max(1, len(places) // 6)]
    for place, step in chosen:
        resumed = small.trainer(name)
        found_step, state = load_checkpoint(tmp_path / str(place))
        assert found_step == step
        resumed.load_state_dict(step, state)
        again = [resumed.advance() for _ in found[place:]]
        assert [None if loss is None else loss.item() for loss in again] == found[place:]
        torch.testing.assert_close(resumed.model.state_dict(), whole.model.state_dict(), rtol=0, atol=0)
        assert len(resumed.images) == len(whole.images)


def test_nothing_draws_from_global_generators(name):
    def state():
        return random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist()

    trainer = small.trainer(name)
    before = state()
    small.losses(trainer, 12)
    assert state() == before


def test_the_network_is_in_training_mode_and_its_weights_learn_whenever_the_method_is_done(name):
    trainer = small.trainer(name)
    while trainer.step < 12:
        trainer.advance()
        assert all(module.training for module in trainer.model.modules())
        assert all(parameter.requires_grad for parameter in trainer.model.parameters())


def test_a_seed_decides_the_run(name):
    first, second, other = (small.trainer(name, seed=seed) for seed in (1, 1, 2))
    losses = small.losses(first, 12)
    assert small.losses(second, 12) == losses
    torch.testing.assert_close(small.weights(first), small.weights(second), rtol=0, atol=0)
    assert small.losses(other, 12) != losses


def test_at_no_strength_it_is_erm_bit_for_bit(name):
    """And what it is at full strength is not."""
    plain, neutral = small.trainer("erm"), small.trainer(name, neutral=True)
    expected = small.losses(plain, 12)
    assert small.losses(neutral, 12) == expected
    assert list(small.weights(neutral)) == list(small.weights(plain))
    torch.testing.assert_close(small.weights(neutral), small.weights(plain), rtol=0, atol=0)
    assert (small.losses(small.trainer(name), 12) == expected) == (name == "erm")


def test_it_learns_through_an_augmentation(name):
    plain, augmented = small.trainer(name), small.trainer(name, method__augment="randconv")
    assert np.isfinite(losses := small.losses(augmented, 12)).all()
    assert losses != small.losses(plain, 12)


@pytest.fixture(params=[name for name in METHODS if issubclass(find_method(name), Augmentation)])
def augmentation(request):
    return request.param


def test_erm_through_an_augmentation_is_the_augmentation(augmentation):
    options = small.settings(augmentation)
    one = small.trainer(augmentation)
    other = small.trainer("erm", method__augment=augmentation, method__augment_options=options)
    assert small.losses(one, 6) == small.losses(other, 6)


def test_a_method_with_a_head_and_numbers_for_each_image_learns_through_an_augmentation(augmentation):
    trainer = small.trainer("jigen", method__augment=augmentation)
    assert np.isfinite(small.losses(trainer, 6)).all()


def test_an_augmentation_makes_the_same_views_in_every_process(augmentation):
    """Each takes its part of the random numbers for all."""
    if find_method(augmentation).distributed:
        pytest.skip(find_method(augmentation).distributed)
    trainer = small.trainer(augmentation)
    images, _ = trainer.images.take(torch.arange(16))
    made, _ = experiment(method__name=augmentation).method.make()
    whole, parts = [], []
    for part in (slice(0, 16), slice(0, 8), slice(8, 16)):
        made.begin(replace(trainer.training, part=part))
        generator = torch.Generator().manual_seed(3)
        views = made.views_of(images[part], generator)
        (whole if part == slice(0, 16) else parts).append((views, generator.get_state()))
    ((together, state),) = whole
    for views in zip(together, *(views for views, _ in parts), strict=True):
        torch.testing.assert_close(torch.cat(views[1:]), views[0], rtol=1e-4, atol=1e-5)
    assert all(torch.equal(other, state) for _, other in parts)


def test_views_of_several_steps_are_those_of_each(augmentation):
    """With the same random numbers, and in much fewer operations."""
    one, several = small.trainer(augmentation), small.trainer(augmentation)
    several.feed.together = 6
    for _ in range(6):
        for at_once, alone in zip(next(several.feed), next(one.feed), strict=True):
            torch.testing.assert_close(at_once, alone, rtol=1e-4, atol=1e-5)
    states = [trainer.generators["method"].get_state() for trainer in (one, several)]
    assert torch.equal(*states)


def test_views_of_several_steps_are_asked_for_together(augmentation):
    """Operations on images are what a processor has to start one by one on a GPU."""

    def operations(count):
        trainer = small.trainer(augmentation)
        shape, generator = torch.Size((16, 3, 32, 32)), trainer.generators["method"]
        foreseen = [trainer.objective.foresee(shape, generator) for _ in range(count)]
        images, labels, _ = trainer.batches.take(count)
        with Counted() as counted:
            trainer.objective.draw_foreseen(images, labels, foreseen)
        return counted.operations

    assert operations(32) < 32 * operations(1) / 4


def test_the_memory_format_of_images_changes_no_view(augmentation):
    one, other = (small.trainer(augmentation, run__channels_last=last) for last in (False, True))
    assert small.losses(other, 3) == pytest.approx(small.losses(one, 3), rel=1e-4)


class Asked(TorchDispatchMode):
    """Notes what makes the CPU wait for a device: a value, or a shape that depends on values."""

    def __init__(self):
        super().__init__()
        self.operations = set()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        name = operation.overloadpacket.__name__
        if name in ("_local_scalar_dense", "nonzero", "masked_select", "_unique2", "equal", "repeat_interleave"):
            self.operations.add(name)
        return operation(*args, **kwargs or {})


class Counted(TorchDispatchMode):
    """Counts operations."""

    def __init__(self):
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.operations += 1
        return operation(*args, **kwargs or {})


def test_a_step_that_can_be_captured_asks_the_device_for_nothing(name):
    if not find_method(name).capturable:
        pytest.skip("it cannot")
    trainer = small.trainer(name)
    small.losses(trainer, 6)  # a method that adds images has added some
    drawn = trainer.objective.draw(*next(trainer.batches), trainer.generators["method"])
    with Asked() as asked:
        trainer.objective(*drawn).backward()
        trainer.objective.after(*drawn)
    assert asked.operations == set()


def test_defaults_are_settings_that_can_be_given(name):
    kind = find_method(name)
    values = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(kind.make({})).items()}
    kind.check(values)
    kind.check({**kind.neutral})
    assert kind.make(values) == kind.make({})
    with pytest.raises(UserError, match=f"unknown option of method {name} 'strngth'"):
        kind.check({"strngth": 1})


def test_names_are_unique(name):
    with pytest.raises(ValueError, match=f"method '{name}' is registered already"):

        @register_method(name)
        class Other(Method):
            pass


def test_unknown_names_are_one_line():
    with pytest.raises(UserError, match=r"unknown method 'em'; did you mean 'erm'\?"):
        find_method("em")
    with pytest.raises(UserError, match=r"unknown augmentation 'erm'"):
        find_augmentation("erm")
