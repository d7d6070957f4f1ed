"""A fused network gives the same numbers, on constants alone, and says what stays."""

import copy

import pytest
import torch
from torch import nn

import xcnorm
from xcnorm.fusion import fusion_report
from xcnorm.models import ResNet, WideResNet, Wiring
from xcnorm.nn import FORMS, NORMS, MovingScale, XCNormConv2d, synchronise

OPTIONS = [
    {},
    {"preset": "paper"},
    {"gain": "after_norm", "norm": "batch", "scale": "parameter"},
    {"gain": "none", "tau": "none", "norm": "none", "rectify": "none"},
    {"mask": True, "norm": "batch_test", "channelwise": True},
]


def trained(network, size=16):
    """Moving averages and gains that are not those of the start."""
    network.double().train()
    with torch.no_grad():
        for _ in range(2):
            network(torch.rand(4, 3, size, size, dtype=torch.float64))
        for name, parameter in network.named_parameters():
            if name.endswith("gain"):
                parameter.mul_(torch.rand_like(parameter) - 0.5)
    return network.eval()


def assert_fused_equals(network, size=16):
    images = torch.rand(2, 3, size, size, dtype=torch.float64)
    before = copy.deepcopy(network.state_dict())
    fused = xcnorm.fuse(network)
    with torch.no_grad():
        torch.testing.assert_close(fused(images), network(images), rtol=1e-9, atol=1e-9)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    return fused


@pytest.mark.parametrize("layer", FORMS)
def test_every_form_gives_the_same_numbers(layer):
    torch.manual_seed(0)
    options = {"kernel": "gaussian"} if layer == "kervolution" else {}
    assert_fused_equals(trained(WideResNet(10, 1, Wiring(layer, **options))))


@pytest.mark.parametrize("norm", NORMS)
def test_every_norm_gives_the_same_numbers(norm):
    torch.manual_seed(0)
    assert_fused_equals(trained(WideResNet(10, 1, Wiring("r_xcnorm", norm))))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_stage_gives_the_same_numbers(options):
    torch.manual_seed(0)
    network = nn.Sequential(xcnorm.RXCNormConv2d(3, 8, 3, **options), nn.Flatten(), nn.LazyLinear(4))
    network(torch.rand(4, 3, 16, 16))
    assert_fused_equals(trained(network))


def test_nothing_is_left_that_could_move():
    fused = assert_fused_equals(trained(WideResNet(10, 1, Wiring("r_xcnorm", preset="paper"))))
    kinds = {type(module) for module in fused.modules()}
    assert MovingScale not in kinds
    layers = [module for module in fused.modules() if isinstance(module, XCNormConv2d)]
    assert all(type(layer.stages.norm) is nn.Identity for layer in layers)
    assert not any(parameter.requires_grad for parameter in fused.parameters())
    before = copy.deepcopy(fused.state_dict())
    fused.train()(torch.rand(2, 3, 16, 16, dtype=torch.float64))
    assert all(torch.equal(before[name], each) for name, each in fused.state_dict().items() if "trunk.0" in name)


@pytest.mark.parametrize("layer", ["conv", "weight_normalised", "weight_standardised"])
def test_batch_norms_go_into_the_plain_convolutions_before_them(layer):
    fused = assert_fused_equals(trained(ResNet((1, 1, 1, 1), True, Wiring(layer)), 64), 64)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in fused.modules())
    assert {type(module) for module in fused.modules() if isinstance(module, nn.Conv2d)} == {nn.Conv2d}


def test_a_batch_norm_of_several_processes_is_folded_as_well():
    network = trained(synchronise(WideResNet(10, 1, Wiring("xcnorm", "batch"))))
    assert_fused_equals(network)


def test_what_stays_is_said():
    class Own(XCNormConv2d):
        """Does something that nobody knows."""

    network = nn.Sequential(
        Own(3, 8, 3),
        xcnorm.XCNormConv2d(8, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        xcnorm.create_model("digits_cnn", "sphere", in_channels=8).trunk[0],
        nn.InstanceNorm2d(64),
    )
    report = fusion_report(xcnorm.fuse(network))
    stays = {each.name: each.reason for each in report.layers}
    assert stays == {
        "0": "it is of a class of its own",
        "1": "its norm takes the statistics of each image",
        "2": "no plain layer is known to stand directly before it",
        "4.0": "it is no plain convolution with other filters",
        "5": "it takes statistics of each image, or of each batch",
    }
    assert [each.folded for each in report.layers] == [(), ("filters", "tau", "gain"), (), (), ()]
    assert str(report).splitlines()[-1] == "1 folded, 4 as they were"


def test_a_layer_that_hangs_twice_is_folded_once():
    layer = xcnorm.XCNormConv2d(4, 4, 3, padding=1, norm="batch")
    network = nn.Sequential(nn.Conv2d(3, 4, 1), layer, layer)
    fused = assert_fused_equals(trained(network))
    assert fused[1] is fused[2]


def test_a_converted_model_leaves_its_plain_layers_behind():
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 4, 1))
    fused = xcnorm.fuse(trained(xcnorm.convert(model)))
    with pytest.raises(ValueError, match="nothing to revert"):
        xcnorm.revert(fused)


def test_a_single_layer_is_a_model_too():
    assert type(xcnorm.fuse(xcnorm.create_model("digits_cnn", "weight_normalised").trunk[0][0])) is nn.Conv2d


def test_what_was_fused_is_not_fused_again():
    network = nn.Sequential(xcnorm.XCNormConv2d(3, 8, 3))
    with pytest.raises(ValueError, match="fused already"):
        xcnorm.fuse(xcnorm.fuse(network))
    with pytest.raises(ValueError, match="not fused"):
        fusion_report(network)
