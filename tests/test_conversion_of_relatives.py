"""convert to a relative of the operator: what is replaced, and what stays around it."""

import pytest
import torch

import xcnorm
from tests.test_conversion import assert_alive, changes, small_network


def test_relatives_are_put_in_place_with_what_they_keep_around_them():
    model = xcnorm.convert(small_network(), layer="sphere")
    assert [type(m).__name__ for m in model[:7]] == [
        "SphereConv2d", "BatchNorm2d", "ReLU", "Dropout", "SphereConv2d", "GELU", "SphereConv2d",
    ]  # fmt: skip
    assert model[0].padding_mode == "zeros"
    assert "bias dropped" in changes(model)["0"].reason
    assert changes(model)["11"].reason == "Linear has no sphere form"
    assert "stays around layer='sphere'" in changes(model)["1"].reason
    assert_alive(model)


def test_relatives_without_norm_and_activation_take_those_out():
    model = xcnorm.convert(small_network(), layer="bcos", scale="none", b=1.5)
    assert [type(m).__name__ for m in model[:9]] == [
        "BcosConv2d", "Identity", "Identity", "Dropout", "BcosConv2d", "Identity", "BcosConv2d", "Identity", "Identity",
    ]  # fmt: skip
    assert (model[4].b, model[4].scale, model[4].groups) == (1.5, "none", 2)
    assert changes(model)["1"].reason == "follows 0, which needs no norm"
    assert changes(model)["2"].reason == "follows 0, which needs no activation"
    assert_alive(model)


def test_a_weight_normalised_model_is_the_model_it_was():
    model, images = small_network().eval(), torch.randn(2, 3, 32, 32)
    expected = model(images)
    torch.testing.assert_close(xcnorm.convert(model, layer="weight_normalised")(images), expected)


def test_filters_that_compete_for_a_channel_differ():
    model = small_network()
    weight = model[0].weight.detach().clone()
    layer = xcnorm.convert(model, layer="bcos", max_out=2)[0]
    assert torch.equal(layer.weight[::2], weight)
    assert not torch.equal(layer.weight[1::2], weight)


@pytest.mark.parametrize("layer", ["decoupled", "kervolution", "scs", "weight_standardised"])
def test_every_relative_can_be_converted_to(layer):
    model = xcnorm.convert(small_network(), layer=layer)
    assert xcnorm.conversion_report(model).count("converted") == 3
    model(torch.randn(4, 3, 32, 32)).square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"layer": "conv"}, ValueError, "unknown layer 'conv'"),
        ({"layer": "sphere", "dense": "xcnorm"}, ValueError, "dense is for XCNorm layers, not for layer='sphere'"),
        ({"layer": "sphere", "rectify_first": "abs"}, ValueError, "rectify_first is for XCNorm layers"),
        ({"layer": "sphere", "tau": 2.0}, TypeError, "unknown option of layer 'sphere' 'tau'"),
    ],
)
def test_what_a_relative_cannot_honour_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        xcnorm.convert(small_network(), **arguments)
