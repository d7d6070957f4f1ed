"""revert puts back what convert took out, bit for bit."""

import copy
import pickle

import pytest
import torch
from torch import nn

import xcnorm
from tests.conversion.networks import NETWORKS, mobilenet_v3
from tests.test_conversion import changes, small_network
from xcnorm.conversion.replacement import Replacement
from xcnorm.nn import XCNormLayer


def used(model):
    """With moving averages that have moved, in evaluation mode."""
    model(torch.randn(4, 3, 32, 32))
    return model.eval()


@pytest.mark.parametrize("options", [{}, {"policy": "all"}, {"layer": "bcos"}], ids=["default", "all", "bcos"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_comes_back_bit_for_bit(name, options):
    model, images = used(NETWORKS[name]()), torch.randn(2, 3, 32, 32)
    expected, state = model(images), copy.deepcopy(model.state_dict())
    modules = dict(model.named_modules())
    model = xcnorm.convert(model, **options)
    model.train()(torch.randn(4, 3, 32, 32)).square().sum().backward()
    model = xcnorm.revert(model.eval())
    assert dict(model.named_modules()) == modules
    for name, value in model.state_dict().items():
        if not name.startswith(tuple(f"{each}." for each, m in modules.items() if isinstance(m, nn.BatchNorm2d))):
            assert torch.equal(value, state[name])
    model.load_state_dict(state)  # norms that stayed have seen another batch
    assert torch.equal(model(images), expected)


def test_without_training_nothing_needs_to_be_loaded():
    model, images = used(mobilenet_v3()), torch.randn(2, 3, 32, 32)
    expected = model(images)
    assert torch.equal(xcnorm.revert(xcnorm.convert(model))(images), expected)


def test_what_is_kept_for_the_way_back_is_no_part_of_the_model():
    model = xcnorm.convert(small_network())
    assert sum(isinstance(module, nn.BatchNorm2d) for module in model.modules()) == 0
    assert "1.weight" not in model.state_dict()


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_can_be_reverted(twin):
    model, images = small_network().eval(), torch.randn(2, 3, 32, 32)
    expected = model(images)
    assert torch.equal(xcnorm.revert(twin(xcnorm.convert(model)))(images), expected)


def test_plain_layers_follow_the_model():
    model = xcnorm.revert(xcnorm.convert(small_network().eval()).double().train())
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float64}
    assert model[1].running_mean.dtype == torch.float64
    assert all(module.training for module in model.modules())


def test_a_single_layer_and_a_model_inside_another():
    convolution = nn.Conv2d(3, 8, 3)
    inside = xcnorm.convert(small_network())
    outer = nn.Sequential(xcnorm.convert(convolution), nn.ModuleDict({"body": inside}))
    xcnorm.revert(outer)
    assert outer[0] is convolution
    assert type(inside[0]) is nn.Conv2d
    assert xcnorm.revert(xcnorm.convert(convolution)) is convolution


def test_two_conversions_are_reverted_at_once():
    model = small_network()
    modules = list(model)
    xcnorm.convert(xcnorm.convert(model, skip="4"))
    assert isinstance(model[4], XCNormLayer)
    assert all(a is b for a, b in zip(xcnorm.revert(model), modules, strict=True))
    with pytest.raises(ValueError, match="not converted"):
        xcnorm.conversion_report(model)
    with pytest.raises(ValueError, match="nothing to revert"):
        xcnorm.revert(model)


def test_hooks_move_along_and_back():
    model, seen = small_network(), []
    handles = [model[i].register_forward_hook(lambda module, *_: seen.append(type(module).__name__)) for i in (0, 1)]
    xcnorm.convert(model)
    assert "hooks moved along" in changes(model)["0"].reason
    model(torch.randn(2, 3, 32, 32))
    assert seen == ["RXCNormConv2d", "Identity"]
    handles[0].remove()
    xcnorm.revert(model)(torch.randn(2, 3, 32, 32))
    assert seen[2:] == ["BatchNorm2d"]


def test_hooks_on_gradients_are_named():
    model = small_network()
    model[0].weight.register_hook(lambda gradient: gradient)
    assert "gradient of its parameters left behind" in changes(xcnorm.convert(model))["0"].reason


def test_a_conversion_that_fails_on_the_way_leaves_the_model_alone(monkeypatch):
    model = small_network()
    modules = list(model)
    make = Replacement.make

    def fails_late(self, module, **arguments):
        if module is modules[6]:
            raise ValueError("does not fit")
        return make(self, module, **arguments)

    monkeypatch.setattr(Replacement, "make", fails_late)
    with pytest.raises(ValueError, match="does not fit"):
        xcnorm.convert(model)
    assert list(model) == modules
