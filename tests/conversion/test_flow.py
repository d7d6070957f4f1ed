"""What follows a layer is found by tracing, or else by the order of modules."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import xcnorm
from tests.conversion.networks import NETWORKS, ConvNeXt, DenseNet, NormAct, ResNet, efficientnet, mobilenet_v3
from tests.test_conversion import assert_alive, changes
from xcnorm.nn import XCNormLayer

LAYERS = (nn.Conv2d, nn.Linear, nn.BatchNorm2d, nn.LayerNorm, nn.ReLU, nn.Hardswish, nn.SiLU, nn.GELU)


@pytest.mark.parametrize("layer", ["r_xcnorm", "bcos", "sphere"])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_layer_of_a_network_is_accounted_for_and_the_network_lives(name, layer):
    model = NETWORKS[name]()
    names = {name for name, module in model.named_modules() if isinstance(module, LAYERS)}
    inside = {name for name in names if isinstance(model.get_submodule(name.rpartition(".")[0]), nn.BatchNorm2d)}
    model = xcnorm.convert(model, layer=layer)
    assert names - inside <= set(changes(model))
    assert xcnorm.conversion_report(model).count("converted") > 1
    assert_alive(model)
    model(torch.randn(4, 3, 32, 32)).square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)


def test_a_norm_that_activates_goes_with_its_convolution():
    model = xcnorm.convert(mobilenet_v3())
    assert isinstance(model[2].conv_pw, XCNormLayer)
    assert isinstance(model[2].bn1, nn.Identity)
    assert isinstance(model[2].bn3, nn.Identity)
    assert changes(model)["2.bn1"].before == "NormAct"


def test_the_activation_of_such_a_norm_stays_before_an_average():
    model = xcnorm.convert(efficientnet())
    assert isinstance(model[5], nn.SiLU)
    assert "its activation stays" in changes(model)["5"].reason


def test_the_mean_of_a_hardswish_is_constant_so_the_layer_does_not_normalise():
    model = xcnorm.convert(mobilenet_v3())
    assert isinstance(model[5], nn.Identity)
    assert (model[4].options.norm, model[2].conv_pw.options.norm) == ("none", "instance")
    assert isinstance(xcnorm.convert(mobilenet_v3(), norm="batch")[5], nn.Identity)


def test_a_mean_after_a_sum_counts_as_the_next_step():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 16, 3), nn.Conv2d(16, 16, 3, padding=1)

        def forward(self, x):
            x = self.first(x)
            return (x + self.second(x)).mean((2, 3))

    model = xcnorm.convert(Net())
    assert (model.first.options.norm, model.second.options.norm) == ("none", "none")


def test_a_depthwise_convolution_that_stays_keeps_its_norm():
    model = xcnorm.convert(mobilenet_v3())
    assert type(model[3].conv_dw) is nn.Conv2d
    assert isinstance(model[3].bn2, NormAct)


def test_a_norm_whose_forward_says_nothing_stays():
    class Odd(nn.BatchNorm2d):
        def forward(self, x):
            return F.leaky_relu(super().forward(x))

    model = xcnorm.convert(nn.Sequential(nn.Conv2d(3, 8, 3), Odd(8), nn.ReLU(), nn.Conv2d(8, 8, 3)))
    assert isinstance(model[1], Odd)
    assert isinstance(model[2], nn.ReLU)
    assert "1 behind it stays: Odd has a forward of its own" in changes(model)["0"].reason


def test_convolutions_of_gates_and_heads_on_one_position_stay():
    model = xcnorm.convert(mobilenet_v3())
    for name in ("2.se.conv_reduce", "2.se.conv_expand", "7"):
        assert changes(model)[name].reason == "works on pooled values, as in squeeze and excitation"
    assert isinstance(model[8], nn.Hardswish)


def test_what_is_enlarged_after_a_pool_is_no_single_position():
    class Context(nn.Module):
        def __init__(self):
            super().__init__()
            self.narrow, self.wide = nn.Conv2d(16, 16, 1), nn.Conv2d(16, 16, 1)

        def forward(self, x):
            y = self.narrow(F.adaptive_avg_pool2d(x, 1))
            return self.wide(F.interpolate(y, size=x.shape[2:]) + x)

    model = xcnorm.convert(nn.Sequential(nn.Conv2d(3, 16, 3), Context(), nn.Conv2d(16, 4, 3)))
    assert type(model[1].narrow) is nn.Conv2d
    assert isinstance(model[1].wide, XCNormLayer)


@pytest.mark.parametrize("traceable", [True, False])
def test_a_network_that_cannot_be_traced_is_traced_block_by_block(traceable):
    model = xcnorm.convert(ResNet(traceable))
    for removed in (model.layer1[0].bn1, model.layer1[0].act1, model.layer1[1].bn2, model.bn1, model.act1):
        assert isinstance(removed, nn.Identity)
    assert isinstance(model.layer1[0].act2, nn.ReLU)
    assert ("" in changes(model)) != traceable
    assert traceable or "not traced, known blocks aside (TraceError" in changes(model)[""].reason


def test_a_norm_before_its_convolution_stays():
    model = xcnorm.convert(DenseNet())
    assert isinstance(model.units[0].norm1, nn.BatchNorm2d)
    assert isinstance(model.units[0].norm2, nn.Identity)
    assert isinstance(model.norm0, nn.Identity)
    assert isinstance(model.norm5, nn.BatchNorm2d)


def test_a_function_that_rectifies_stays_and_is_named():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn, self.last = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3)

        def forward(self, x):
            return self.last(F.relu(self.bn(self.conv(x))))

    model = xcnorm.convert(Net())
    assert isinstance(model.bn, nn.Identity)
    assert "relu follows as a function and stays" in changes(model)["conv"].reason


def test_an_output_that_is_used_twice_keeps_its_norm():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)

        def forward(self, x):
            y = self.conv(x)
            return self.bn(y) + y

    model = xcnorm.convert(Net())
    assert isinstance(model.bn, nn.BatchNorm2d)
    assert isinstance(model.conv, XCNormLayer)


def test_dense_layers_behind_a_pooled_map_and_wide_depthwise_ones_are_converted_on_request():
    model = xcnorm.convert(ConvNeXt(), dense="xcnorm")
    assert isinstance(model.stages[1].conv_dw, XCNormLayer)
    assert isinstance(model.stages[1].fc1, XCNormLayer)
    assert isinstance(model.stages[1].act, nn.Identity)
    assert isinstance(model.stages[1].norm, nn.LayerNorm)
    assert_alive(model)


class Borrowing(nn.Module):
    """Uses a layer's weight, as it is or scaled, without calling the layer."""

    def __init__(self, scale):
        super().__init__()
        self.scale = scale
        self.stem, self.conv = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3)

    def forward(self, x):
        weight = self.conv.weight if self.scale == 1 else self.conv.weight * self.scale
        return F.conv2d(self.stem(x), weight)


@pytest.mark.parametrize("scale", [1, 2])
def test_a_weight_that_is_used_without_its_layer_stays(scale):
    model = xcnorm.convert(Borrowing(scale))
    assert isinstance(model.stem, XCNormLayer)
    assert type(model.conv) is nn.Conv2d
    assert "without calling it" in changes(model)["conv"].reason


def test_a_module_that_convolves_by_itself_is_named():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.filters = nn.Parameter(torch.randn(8, 8, 3, 3))

        def forward(self, x):
            return F.conv2d(x, self.filters)

    model = xcnorm.convert(nn.Sequential(nn.Conv2d(3, 8, 3), Own()))
    assert changes(model)["1"].reason == "convolves by a function; only layers are converted"


def test_parts_of_torchs_own_modules_stay():
    body = nn.TransformerEncoderLayer(32, 2, 32, batch_first=True)
    model = xcnorm.convert(nn.Sequential(nn.Linear(32, 32), body, nn.Linear(32, 2)), dense="xcnorm")
    assert "part of TransformerEncoderLayer" in changes(model)["1.linear1"].reason


def test_tracing_leaves_no_trace():
    class Remembers(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.seen = nn.Conv2d(3, 8, 3), []

        def forward(self, x):
            self.last = self.conv(x)
            self.seen.append(self.last)
            return self.last

    called = []
    model = nn.Sequential(Remembers(), nn.Conv2d(8, 8, 3)).train()
    model[0].register_forward_hook(lambda *arguments: called.append(arguments))
    model = xcnorm.convert(model, skip="1")
    assert not called
    assert model[0].seen == []
    assert not hasattr(model[0], "last")
    assert model.training
