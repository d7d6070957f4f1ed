"""calibrate sets gains, c and moving averages, and nothing else."""

import copy
import re

import pytest
import torch
from torch import nn

import xcnorm
from tests.conversion.networks import NETWORKS, mobilenet_v3, vgg
from tests.test_conversion import assert_alive, changes, small_network
from xcnorm.conversion import calibration
from xcnorm.conversion.calibration import agreement


def batches(count=2):
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(8, 3, 32, 32, generator=generator) for _ in range(count)]


def settled(model):
    """With moving averages that are those of the images, so that no channel is dead."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 1.0
    model(torch.cat(batches()))
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 0.1
    return model


def one_answer(*body, channels):
    """A network with a single output: it always gives its answer, so that nothing is undone."""
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1))


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
    plain = settled(one_answer(*vgg()[:10], channels=32))
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
    plain = one_answer(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1), nn.BatchNorm2d(4), channels=4)
    model = xcnorm.convert(settled(plain), layer="r_xcnorm", norm="batch", scale="ema")
    xcnorm.calibrate(model, batches())
    seen = []
    model[3].register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        model.eval()(torch.cat(batches()))
    torch.testing.assert_close(model[3].running_mean, seen[0].mean((0, 2, 3)), rtol=0.1, atol=1e-3)
    assert model[3].momentum == 0.1
    assert 0 < model[0].running_c < 1  # of values between 0 and 1, where it started from 10


@pytest.mark.parametrize("layer", ["xcnorm", "r_xcnorm"])
@pytest.mark.parametrize("name", ["resnet", "densenet", "vgg", "mobilenet v3", "efficientnet"])
def test_with_the_stages_of_the_model_it_starts_much_nearer(name, layer):
    plain, images = settled(NETWORKS[name]()), batches()

    def away(**options):
        """The squared difference of the outputs, in units of their variance."""
        with torch.no_grad():
            wanted = plain.eval()(torch.cat(images))
            model = xcnorm.convert(copy.deepcopy(plain), layer=layer, batches=images, **options)
            return (model.eval()(torch.cat(images)) - wanted).square().mean() / wanted.var(0).mean()

    assert away(stages="model") < 0.75 * away(norm="batch", gain="after_norm")


def test_what_costs_answers_is_undone(monkeypatch):
    model = xcnorm.convert(settled(vgg()), gain="after_norm")
    before = copy.deepcopy(model.state_dict())
    found = iter([0.75, 0.5])
    monkeypatch.setattr(calibration, "agreement", lambda outputs, wanted: next(found))
    xcnorm.calibrate(model, batches())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert str(xcnorm.conversion_report(model)).endswith(
        "for 50% of the images, before for 75%; undone, as those are fewer"
    )
    assert "gain set" not in changes(model)["0"].reason


def test_the_share_is_of_images_or_of_their_positions():
    maps = torch.zeros(2, 3, 2, 2)
    other = maps.clone()
    other[0, 1, 0, 0] = 1.0
    assert agreement([maps], [other]) == 7 / 8


def test_the_report_says_how_near_it_is():
    report = xcnorm.conversion_report(xcnorm.convert(settled(vgg()), stages="model", batches=batches()))
    told = re.fullmatch(
        r"calibrated on 2 batches: the plain model's answer for (\d+)% of the images, before for (\d+)%",
        report.calibration,
    )
    assert int(told[1]) > int(told[2])
    assert str(report).endswith(report.calibration)


@pytest.mark.parametrize("options", [{"stages": "model"}, {"gain": "after_norm"}], ids=str)
@pytest.mark.parametrize("name", ["resnet", "densenet", "mobilenet v3"])
def test_a_calibrated_network_comes_back_bit_for_bit(name, options):
    model = settled(NETWORKS[name]()).eval()
    expected = model(batches()[0])
    model = xcnorm.revert(xcnorm.convert(model, batches=batches(), **options))
    assert torch.equal(model(batches()[0]), expected)


def test_outputs_that_are_no_tensor_are_refused():
    class Strange(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = small_network()

        def forward(self, x):
            return {"logits": (self.body(x),)} if x.shape[-1] == 32 else "too small"

    assert xcnorm.conversion_report(xcnorm.convert(Strange(), batches=batches())).calibration
    with pytest.raises(TypeError, match="must give a tensor, or several, to be calibrated; got str"):
        xcnorm.convert(Strange(), batches=[torch.rand(4, 3, 16, 16)])


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
