"""What `create_model` takes, what it makes of it, and what it refuses."""

import pytest
import torch
from torch import nn

import xcnorm.nn as xnn
from tests.models.networks import LAYERS, NETWORKS, XCNORM_FORMS, modules_of
from xcnorm.models import create_model, register_model
from xcnorm.models.wiring import Abs


def kinds(part):
    return [type(module) for module in part]


def layers_of(network):
    return [module for module in network.modules() if isinstance(module, xnn.XCNormLayer)]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(
    ("layer", "options", "norm"),
    [
        ("conv", {}, None),
        ("xcnorm", {}, "instance"),
        ("r_xcnorm", {}, "instance"),
        ("xcnorm", {"preset": "paper"}, "batch"),
        ("r_xcnorm", {"preset": "paper"}, "batch"),
    ],
)
def test_the_default_norm(name, layer, options, norm):
    norm = norm or ("none" if name == "digits_cnn" else "batch")
    assert repr(create_model(name, layer, **options)) == repr(create_model(name, layer, norm, **options))


@pytest.mark.parametrize("layer", XCNORM_FORMS)
def test_one_norm_for_layers_shortcuts_and_the_end(layer):
    network = create_model("resnet18", layer, "group")
    assert {module.options.norm for module in layers_of(network)} == {"group"}
    assert {module.affine for module in modules_of(network, nn.GroupNorm)} == {True, False}
    assert not modules_of(network, nn.BatchNorm2d)
    assert not modules_of(network, xnn.InstanceNorm)


def test_options_reach_every_layer():
    network = create_model("wrn16_4", "r_xcnorm", robust="huber", scale="ema", tau=2.0, mask=True, gain="after_norm")
    for module in layers_of(network):
        options = module.options
        chosen = (options.robust, options.scale, options.tau, options.mask, options.gain)
        assert chosen == ("huber", "ema", 2.0, True, "after_norm")


@pytest.mark.parametrize("dense", ["linear", "xcnorm"])
def test_only_the_first_layer_is_channelwise(dense):
    network = create_model("digits_cnn", "xcnorm", channelwise=True, dense=dense)
    assert [module.options.channelwise for module in layers_of(network)][:2] == [True, False]
    assert network(torch.rand(2, 3, 32, 32)).isfinite().all()


@pytest.mark.parametrize("layer", XCNORM_FORMS)
@pytest.mark.parametrize(
    ("arguments", "first", "others"),
    [
        ({}, "abs", "relu"),
        ({"preset": "paper"}, "relu", "relu"),
        ({"preset": "paper", "rectify_first": "abs"}, "abs", "relu"),
        ({"rectify": "relu"}, "relu", "relu"),
        ({"rectify": "none"}, "none", "none"),
        ({"rectify": "abs", "rectify_first": "relu"}, "relu", "abs"),
        ({"rectify_first": "none"}, "none", "relu"),
    ],
)
def test_what_rectifies_the_first_layer_and_the_others(layer, arguments, first, others):
    rectified = [module.options.rectify for module in layers_of(create_model("wrn16_4", layer, **arguments))]
    assert rectified == [first] + [others] * (len(rectified) - 1)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("rectify_first", "kind"), [("abs", Abs), ("none", nn.Identity), ("relu", nn.ReLU)])
def test_in_a_plain_network_the_first_activation_is_replaced_after_its_norm(name, rectify_first, kind):
    network = create_model(name, norm="instance", rectify_first=rectify_first)
    if name.startswith("wrn"):  # norm and activation after the stem are those before the first block
        assert kinds(network.trunk[1].before) == [xnn.InstanceNorm, kind]
    else:
        assert kinds(network.trunk[0]) == [nn.Conv2d, xnn.InstanceNorm, kind]
    assert len(modules_of(network, Abs)) == (kind is Abs)


@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "allconv"])
def test_a_plain_network_with_abs_ignores_polarity(name):
    network = create_model(name, norm="instance", rectify_first="abs").double().eval()
    images = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    torch.testing.assert_close(network(-images), network(images))
    network = create_model(name, norm="instance").double().eval()
    assert not torch.allclose(network(-images), network(images), rtol=1e-3)


@pytest.mark.parametrize(
    ("layer", "arguments", "kind"),
    [
        ("conv", {}, None),
        ("conv", {"dense": "xcnorm"}, xnn.XCNormLinear),
        ("xcnorm", {}, None),
        ("xcnorm", {"dense": "xcnorm"}, xnn.XCNormLinear),
        ("xcnorm", {"preset": "paper"}, xnn.XCNormLinear),
        ("xcnorm", {"preset": "paper", "dense": "linear"}, None),
        ("r_xcnorm", {"dense": "xcnorm"}, xnn.RXCNormLinear),
        ("r_xcnorm", {"preset": "paper"}, xnn.RXCNormLinear),
    ],
)
def test_hidden_dense_layers(layer, arguments, kind):
    network = create_model("digits_cnn", layer, **arguments)
    hidden = network.trunk[-2:]
    if kind is None:
        assert [kinds(part) for part in hidden] == [[nn.Linear, nn.ReLU]] * 2
    else:
        assert kinds(hidden) == [kind] * 2
    assert type(network.classifier) is nn.Linear


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize(("norm", "expected"), [(None, "batch"), ("instance", "batch"), ("layer", "layer")])
def test_dense_layers_have_no_instance_statistics(layer, norm, expected):
    network = create_model("digits_cnn", layer, norm, dense="xcnorm")
    assert [part.options.norm for part in network.trunk[-2:]] == [expected] * 2


def test_options_of_a_plain_network_go_to_its_dense_layers():
    network = create_model("digits_cnn", dense="xcnorm", tau=2.0, mask=True)
    assert [(part.options.tau, part.options.mask) for part in network.trunk[-2:]] == [(2.0, True)] * 2


# The rows of the first study that a table has to carry beside ours, so that no credit goes to the wrong part.
CONTROLS = {
    "ERM": {"layer": "conv"},
    "batch norm": {"layer": "conv", "norm": "batch"},
    "instance norm": {"layer": "conv", "norm": "instance"},
    "abs first": {"layer": "conv", "rectify_first": "abs"},
    "instance norm, abs first": {"layer": "conv", "norm": "instance", "rectify_first": "abs"},
    "XCNorm as printed, with mask": {"layer": "xcnorm", "preset": "paper", "mask": True},
    "XCNorm instance, linear dense": {"layer": "xcnorm", "rectify_first": "relu", "mask": True},
    "XCNorm abs first": {"layer": "xcnorm", "norm": "instance", "dense": "linear", "mask": True},
    "XCNorm abs first, batch": {"layer": "xcnorm", "norm": "batch", "mask": True},
    "R-XCNorm as printed": {"layer": "r_xcnorm", "preset": "paper"},
    "R-XCNorm even, instance": {"layer": "r_xcnorm", "robust": "welsch", "scale": "ema", "rectify_first": "relu"},
    "R-XCNorm signed, abs first": {"layer": "r_xcnorm", "robust": "welsch_signed", "scale": "ema", "mask": True},
    "R-XCNorm influence, patch scale": {"layer": "r_xcnorm", "robust": "welsch_influence", "scale": "patch"},
}


@pytest.mark.parametrize("name", ["digits_cnn", "wrn16_4"])
@pytest.mark.parametrize("control", CONTROLS)
def test_controls_can_be_built_and_trained(name, control):
    network = create_model(name, **CONTROLS[control])
    images, labels = torch.rand(4, 3, 32, 32), torch.arange(4)
    optimiser = torch.optim.Adam(network.parameters(), 1e-3)
    losses = []
    for _ in range(3):
        loss = nn.functional.cross_entropy(network(images), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"name": "wrn16-4"}, ValueError, "unknown model 'wrn16-4'; did you mean 'wrn16_4'"),
        ({"layer": "xcnrom"}, ValueError, "unknown layer 'xcnrom'; did you mean 'xcnorm'"),
        ({"norm": "bacth"}, ValueError, "unknown norm 'bacth'; did you mean 'batch'"),
        ({"rectify_first": "gelu"}, ValueError, "unknown rectify_first 'gelu'.*'abs'"),
        ({"dense": "conv"}, ValueError, "unknown dense 'conv'.*'linear', 'xcnorm'"),
        ({"dense": "xcnorm"}, ValueError, "dense='xcnorm' has nothing to replace in 'wrn16_4'.*leave dense out"),
        ({"num_classes": 0}, ValueError, "num_classes must be at least 1, got 0"),
        ({"num_classes": 2.0}, TypeError, "num_classes must be an integer, got 2.0"),
        ({"num_classes": True}, TypeError, "num_classes must be an integer, got True"),
        ({"in_channels": 0}, ValueError, "in_channels must be at least 1, got 0"),
        ({"tau": 2.0}, TypeError, "layer='conv' has no layer options, got 'tau'; use layer='xcnorm'"),
        ({"preset": "paper"}, TypeError, "layer='conv' has no layer options, got 'preset'"),
        ({"layer": "xcnorm", "taau": 2.0}, TypeError, "unknown option 'taau'; did you mean 'tau'"),
        ({"layer": "xcnorm", "robust": "huber"}, TypeError, "unknown option 'robust'"),
        ({"layer": "xcnorm", "rectify": "gelu"}, ValueError, "unknown rectify 'gelu'"),
        ({"layer": "xcnorm", "preset": "papre"}, ValueError, "unknown preset 'papre'; did you mean 'paper'"),
        ({"name": "digits_cnn", "dense": "xcnorm", "channelwise": True}, ValueError, "channelwise=True needs a kernel"),
    ],
)
def test_what_cannot_be_honoured_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        create_model(**{"name": "wrn16_4", **arguments})


def test_a_name_is_registered_once():
    with pytest.raises(ValueError, match="model 'wrn16_4' is registered already; choose another name"):
        register_model("wrn16_4")(lambda wiring, num_classes, in_channels: create_model("wrn40_2"))
