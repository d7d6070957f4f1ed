"""Which layers are converted, as the user asks for them."""

import pytest
from torch import nn

import xcnorm
from tests.test_conversion import ResNet, assert_alive, changes, small_network
from xcnorm.nn import XCNormLayer


def converted(model):
    return {name for name, module in model.named_modules() if isinstance(module, XCNormLayer)}


def test_filter_fn_is_called_with_module_and_name_and_true_means_convert():
    model = xcnorm.convert(small_network(), filter_fn=lambda module, name: name != "4" and module.groups == 1)
    assert converted(model) == {"0", "6"}
    assert changes(model)["4"].reason == "filter_fn is false"


def test_skip_wins_over_filter_fn():
    model = xcnorm.convert(small_network(), skip="0", filter_fn=lambda module, name: True)
    assert converted(model) == {"4", "6"}


def test_first_stage_ends_where_the_resolution_is_reduced_again():
    model = xcnorm.convert(ResNet(), policy="first_stage")
    assert converted(model) == {"conv1", "layer1.0.conv1", "layer1.0.conv2"}
    assert "first stage" in changes(model)["layer1.1.conv1"].reason


def test_first_stage_of_a_network_with_pools():
    body = [nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3)]
    model = xcnorm.convert(nn.Sequential(*body, nn.Flatten(), nn.Linear(8, 2)), policy="first_stage")
    assert converted(model) == {"0", "2"}


def test_all_takes_shortcuts_dense_layers_and_the_classifier():
    model = xcnorm.convert(ResNet(), policy="all")
    assert {"fc", "layer1.1.downsample.0"} <= converted(model)
    assert (model.fc.options.rectify, model.fc.options.norm) == ("none", "none")
    assert "classifier" in changes(model)["fc"].reason
    assert_alive(model)
    assert "11" in converted(xcnorm.convert(small_network(), policy="all"))


@pytest.mark.parametrize(("min_fan_in", "kept"), [(8, set()), (28, {"0"}), (36, {"0"}), (37, {"0", "4"})])
def test_min_fan_in(min_fan_in, kept):
    model = xcnorm.convert(small_network(), min_fan_in=min_fan_in)
    assert {"0", "4", "6"} - converted(model) == kept


def test_only_exact_types_are_converted():
    class Mine(nn.Conv2d):
        pass

    model = xcnorm.convert(nn.Sequential(nn.Conv2d(3, 8, 3), Mine(8, 8, 3)))
    assert type(model[1]) is Mine


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"policy": "al"}, ValueError, "did you mean 'all'"),
        ({"filter_fn": "layer1"}, TypeError, "function of module and name, got 'layer1'"),
        ({"min_fan_in": 1}, ValueError, "min_fan_in must be at least 2"),
        ({"min_fan_in": 2.5}, TypeError, "min_fan_in must be an integer"),
        ({"skip": "layer1"}, ValueError, r"skip='layer1' fits no layer of the model; .*'layer1\.\*'"),
    ],
)
def test_what_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        xcnorm.convert(small_network(), **arguments)
