"""stages="model": the model's own norms and activations stay, and the layers are the similarity alone."""

import pytest
import torch
from torch import nn

import xcnorm
from tests.conversion.networks import NETWORKS, DenseNet, mobilenet_v3, vgg
from tests.test_conversion import assert_alive, changes, small_network
from xcnorm.nn import XCNormLayer


def converted(model, **options):
    return xcnorm.convert(model, stages="model", **options)


def layers(model):
    return {name: module for name, module in model.named_modules() if isinstance(module, XCNormLayer)}


def test_norms_and_activations_stay_with_what_they_learnt():
    plain = vgg()
    kept = {name: module for name, module in plain.named_modules() if isinstance(module, nn.BatchNorm2d | nn.ReLU)}
    model = converted(plain)
    assert len(layers(model)) == 3
    assert all(model.get_submodule(name) is module for name, module in kept.items())
    report = changes(model)
    assert (report["1"].action, report["2"].action) == ("kept", "kept")
    assert report["1"].reason == "follows 0, whose stages are the model's own"


def test_layers_are_the_similarity_alone():
    for layer in layers(converted(mobilenet_v3(), layer="xcnorm")).values():
        assert (layer.options.rectify, layer.options.tau, layer.options.norm) == ("none", "none", "none")


def test_a_gain_is_left_where_no_norm_follows_to_cancel_it():
    gains = {name: layer.options.gain for name, layer in layers(converted(DenseNet())).items()}
    assert gains == {
        "conv0": "none", "units.0.conv1": "none", "units.0.conv2": "before_norm",
        "units.1.conv1": "none", "units.1.conv2": "before_norm",
    }  # fmt: skip


def test_contrast_and_brightness_of_a_patch_do_not_matter_to_the_first_layer():
    first = converted(vgg())[0].eval()
    images = torch.rand(2, 3, 16, 16)
    torch.testing.assert_close(first(0.5 * images + 0.25), first(images), atol=1e-3, rtol=0)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_live_and_come_back(name):
    model, images = NETWORKS[name]().eval(), torch.randn(2, 3, 32, 32)
    expected = model(images)
    assert torch.equal(xcnorm.revert(converted(model))(images), expected)
    assert_alive(converted(model))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": "batch"}, "norm is left to the model with stages='model'"),
        ({"rectify": "abs"}, "rectify is left to the model"),
        ({"rectify_first": "abs"}, "rectify is left to the model"),
        ({"tau": 2.0}, "tau is left to the model"),
        ({"layer": "bcos"}, "stages is for XCNorm layers, not for layer='bcos'"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        converted(small_network(), **options)


def test_an_unknown_word_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="unknown stages 'mine'"):
        xcnorm.convert(small_network(), stages="mine")
