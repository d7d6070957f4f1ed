"""calibrate sets gains, c and moving averages, and nothing else."""

import copy

import pytest
import torch
from torch import nn

import xcnorm
from tests.conversion.networks import NETWORKS, mobilenet_v3, vgg
from tests.test_conversion import assert_alive, changes, small_network


def batches(count=2):
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(8, 3, 32, 32, generator=generator) for _ in range(count)]


def settled(model):
    """With moving averages that are those of the images, so that no channel is dead."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 1.0
    model(torch.cat(batches()))
    return model


def mean_squares(model, names):
    found = {}
    hooks = [
        model.get_submodule(name).register_forward_hook(
            lambda module, inputs, output, name=name: found.update({name: output.square().mean((0, 2, 3))})
        )
        for name in names
    ]
    with torch.no_grad():
        model.eval()(torch.cat(batches()))
    for hook in hooks:
        hook.remove()
    return found


@pytest.mark.parametrize(
    "options", [{"gain": "after_norm"}, {"norm": "none"}, {"gain": "after_norm", "scale": "ema"}], ids=str
)
def test_what_comes_out_of_every_unit_has_the_scale_it_had(options):
    plain = settled(vgg())
    names = ["2", "5", "9"]  # the activations
    wanted = mean_squares(plain, names)
    model = xcnorm.calibrate(xcnorm.convert(plain, **options), batches())
    for name, found in mean_squares(model, names).items():
        torch.testing.assert_close(found, wanted[name], rtol=0.05, atol=0)


def test_uncalibrated_it_has_not():
    plain = settled(vgg())
    wanted = mean_squares(plain, ["2"])["2"]
    found = mean_squares(xcnorm.convert(plain, gain="after_norm"), ["2"])["2"]
    assert (found / wanted - 1).abs().min() > 0.05


def test_filters_modes_and_hooks_are_as_before():
    model = xcnorm.convert(mobilenet_v3(), gain="after_norm")
    model[0].eval()
    before = copy.deepcopy(model)
    xcnorm.calibrate(model, batches())
    for (name, was), (_, module) in zip(before.named_modules(), model.named_modules(), strict=True):
        assert module.training == was.training, name
        assert not module._forward_hooks
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before.get_parameter(name)) != name.endswith("gain"), name
        assert parameter.requires_grad


def test_moving_averages_are_those_of_the_batches():
    plain = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1), nn.BatchNorm2d(4))
    model = xcnorm.convert(plain, layer="r_xcnorm", norm="batch", scale="ema")
    xcnorm.calibrate(model, batches())
    seen = []
    model[3].register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        model.eval()(torch.cat(batches()))
    torch.testing.assert_close(model[3].running_mean, seen[0].mean((0, 2, 3)), rtol=0.1, atol=1e-3)
    assert model[3].momentum == 0.1
    assert 0 < model[0].running_c < 1  # of values between 0 and 1, where it started from 10


def test_a_gain_that_the_norm_cancels_is_left_alone_and_named():
    model = xcnorm.convert(small_network(), batches=batches())
    assert changes(model)["0"].reason.endswith("its channel norm cancels a gain: none set")
    model = xcnorm.convert(small_network(), batches=[(batches()[0], "labels")], gain="after_norm")
    assert changes(model)["0"].reason.endswith("gain set on 1 batches")


@pytest.mark.parametrize("name", NETWORKS)
def test_calibrated_networks_live_and_can_be_reverted(name):
    model = NETWORKS[name]().eval()
    expected = model(batches()[0])
    model = xcnorm.convert(model, gain="after_norm", norm="batch", batches=batches())
    assert_alive(model)
    assert expected.shape == xcnorm.revert(model)(batches()[0]).shape


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([], ValueError, "batches is empty"),
        (torch.rand(2, 3, 8, 8), TypeError, r"use \[tensor\]"),
        (["images"], TypeError, "got str"),
    ],
)
def test_what_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        xcnorm.calibrate(xcnorm.convert(small_network()), given)
    with pytest.raises(ValueError, match="not converted"):
        xcnorm.calibrate(small_network(), batches())
