"""add_dictionaries on our networks and on others."""

import copy
import pickle

import pytest
import torch
from torch import nn

import xcnorm.nn as xnn
from xcnorm.conversion import add_dictionaries
from xcnorm.models import create_model, list_models

OPTIONS = {"words": 16, "chosen": 4}


def dictionaries(model):
    return [module for module in model.modules() if isinstance(module, xnn.Dictionary)]


def plain_model():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 6, 1), nn.Conv2d(6, 5, 3), nn.Flatten(),
        nn.Linear(80, 4),
    )  # fmt: skip


@pytest.mark.parametrize("layer", ["conv", "xcnorm", "r_xcnorm"])
@pytest.mark.parametrize("name", list_models())
def test_every_network_learns_with_dictionaries(name, layer):
    torch.manual_seed(0)
    model = add_dictionaries(create_model(name, layer, num_classes=4), **OPTIONS)
    local = [module for module in model.modules() if isinstance(module, nn.Conv2d) and module.kernel_size != (1, 1)]
    found = dictionaries(model)
    assert [layer.words.shape[1] for layer in found] == [module.out_channels for module in local]
    loss = model(torch.rand(2, 3, 32, 32)).square().sum()
    loss.backward()
    assert loss.isfinite()
    assert all(layer.num_batches_tracked == 1 for layer in found)
    assert all(layer.weight.grad.isfinite().all() for layer in local)
    assert local[-1].weight.grad.abs().sum() > 0
    state = copy.deepcopy(model.state_dict())
    model.eval()(torch.rand(2, 3, 32, 32))
    torch.testing.assert_close(model.state_dict(), state, rtol=0, atol=0)


def test_a_plain_model_keeps_its_weights_and_its_mode():
    model = plain_model().eval()
    weights = list(model.parameters())
    changed = add_dictionaries(model, **OPTIONS)
    assert changed is model
    assert list(changed.parameters()) == weights
    assert [layer.words.shape for layer in dictionaries(model)] == [(16, 8), (16, 5)]
    assert not any(module.training for module in model.modules())
    assert model.train()(torch.rand(2, 3, 8, 8)).shape == (2, 4)
    images = torch.rand(2, 3, 8, 8)
    expected = model.eval()(images)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(images), expected)


def test_a_plain_model_learns_a_little_problem():
    torch.manual_seed(0)
    model = add_dictionaries(plain_model(), **OPTIONS)
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(32) % 4
    images = 0.3 * torch.randn(32, 3, 8, 8, generator=generator)
    images[range(32), 0, labels] += 2  # a bright line, whose row is the class
    optimiser, losses = torch.optim.Adam(model.parameters(), 0.01), []
    for _ in range(60):
        loss = nn.functional.cross_entropy(model(images), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


@pytest.mark.parametrize("kind", [nn.Conv1d, nn.Conv2d, nn.Conv3d])
def test_a_single_convolution_of_any_rank(kind):
    layer = kind(3, 5, 3, dtype=torch.float64)
    rebuilt = add_dictionaries(layer, **OPTIONS)
    assert isinstance(rebuilt, xnn.Rebuilt)
    assert rebuilt.layer is layer
    assert rebuilt.dictionary.words.dtype == torch.float64
    images = torch.rand(2, 3, *(6, 6, 6)[: layer.weight.ndim - 2], dtype=torch.float64)
    assert rebuilt(images).shape == layer(images).shape


@pytest.mark.parametrize("name", ["digits_cnn", "wrn16_4", "resnet18"])
@pytest.mark.parametrize("layer", ["conv", "xcnorm"])
def test_where_dictionaries_stand_in_our_networks(name, layer):
    """Behind a max pool where there is one, else behind the activation, the norm or the layer itself."""
    model = add_dictionaries(create_model(name, layer), **OPTIONS)
    kinds = [type(module.layer).__name__ for module in model.modules() if isinstance(module, xnn.Rebuilt)]
    expected = {
        ("digits_cnn", "conv"): ["MaxPool2d"] * 2,
        ("digits_cnn", "xcnorm"): ["MaxPool2d"] * 2,
        ("wrn16_4", "conv"): ["Conv2d", *["ReLU", "Conv2d"] * 6],
        ("wrn16_4", "xcnorm"): ["XCNormConv2d"] * 13,
        ("resnet18", "conv"): ["MaxPool2d", *["ReLU", "BatchNorm2d"] * 8],
        ("resnet18", "xcnorm"): ["MaxPool2d", *["XCNormConv2d"] * 16],
    }
    assert kinds == expected[name, layer]


def test_a_shared_convolution_has_one_dictionary():
    shared = nn.Conv2d(4, 4, 3, padding=1)
    model = add_dictionaries(nn.Sequential(shared, nn.ReLU(), shared), **OPTIONS)
    assert model[0] is model[2]
    assert len(dictionaries(model)) == 1


def test_a_shared_activation_stays_as_it_is():
    shared = nn.ReLU()
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), shared, nn.Conv2d(4, 6, 3), shared, nn.MaxPool2d(2))
    add_dictionaries(model, **OPTIONS)
    assert [type(module).__name__ for module in model] == [
        "Conv2d", "Rebuilt", "ReLU", "Rebuilt", "ReLU", "MaxPool2d",
    ]  # fmt: skip
    assert model(torch.rand(2, 3, 8, 8)).shape == (2, 6, 2, 2)


def test_there_is_no_second_dictionary():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3))
    add_dictionaries(model, **OPTIONS)
    model.append(nn.Conv2d(4, 4, 3))
    add_dictionaries(model, **OPTIONS)
    assert len(dictionaries(model)) == 3
    with pytest.raises(ValueError, match="all have a kernel of 1, or a dictionary already"):
        add_dictionaries(model, **OPTIONS)


def test_what_cannot_be_done_is_refused():
    with pytest.raises(ValueError, match="no convolution to add a dictionary to"):
        add_dictionaries(nn.Sequential(nn.Linear(3, 4), nn.Conv2d(3, 4, 1)))
    with pytest.raises(ValueError, match="chosen must be between 1 and words=4, got 8"):
        add_dictionaries(plain_model(), words=4, chosen=8)
