"""Networks in every form and with every norm: they are wired as docs/relatives.md says, train, and come back."""

import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from tests.models.networks import modules_of
from xcnorm.models import WideResNet, Wiring, create_model
from xcnorm.models.allconv import SigmoidGELU
from xcnorm.nn import FORMS, NORMS, Relative, find_form
from xcnorm.nn.forms.scs import MaxAbsPool2d

RELATIVES = [name for name in FORMS if issubclass(find_form(name).convolution, Relative)]
BARE = ("bcos", "scs")
BOUNDED = {
    "kervolution": {"kernel": "gaussian"}
}  # a cube of a cube overflows where there is no norm, or one with young averages
OPTIONS = [
    ("sphere", {"angular": "sigmoid"}),
    ("decoupled", {"magnitude": "ball"}),
    ("decoupled", {"magnitude": "log", "angular": "square"}),
    ("bcos", {"b": 1.5, "max_out": 2}),
    ("kervolution", {"kernel": "gaussian"}),
    ("kervolution", {"power": 2}),
    ("weight_standardised", {"correction": 1}),
    ("scs", {"p": 1.0, "gain": False}),
]


def train(network, size=32):
    """Three steps lower the loss of their batch, and reach every parameter."""
    images, labels = torch.rand(4, 3, size, size), torch.arange(4) % 2
    optimiser = torch.optim.Adam(network.parameters(), 1e-4)
    losses = []
    for _ in range(3):
        loss = nn.functional.cross_entropy(network(images), labels)
        optimiser.zero_grad()
        loss.backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_these_are_all_the_forms():
    assert set(FORMS) == {"conv", "xcnorm", "r_xcnorm", *RELATIVES}
    assert len(RELATIVES) == 7


@pytest.mark.parametrize("layer", FORMS)
def test_digits_cnn_trains_in_every_form(layer):
    torch.manual_seed(0)
    train(create_model("digits_cnn", layer))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("layer", FORMS)
def test_a_wide_network_trains_in_every_form_with_every_norm(layer, norm):
    torch.manual_seed(0)
    network, other = (WideResNet(10, 1, Wiring(layer, norm, **BOUNDED.get(layer, {}))) for _ in range(2))
    train(network, 8)
    other.load_state_dict(network.state_dict())
    images = torch.rand(2, 3, 8, 8)
    assert torch.equal(other.eval()(images), network.eval()(images))


@pytest.mark.parametrize("layer", RELATIVES)
@pytest.mark.parametrize("name", ["allconv", "resnet18", "densenet121"])
def test_every_network_exists_in_every_form(name, layer):
    with torch.device("meta"):
        network = create_model(name, layer)
        assert network(torch.empty(2, 3, 32, 32)).shape == (2, 10)
    published = create_model(name)
    shortcuts = 3 if name == "resnet18" else 0
    relatives = modules_of(network, find_form(layer).convolution)
    assert len(relatives) == len(modules_of(published, nn.Conv2d)) - shortcuts
    assert {module.padding_mode for module in relatives} == {"zeros"}
    activations = len(modules_of(network, nn.ReLU) + modules_of(network, SigmoidGELU))
    norms = len(modules_of(network, nn.BatchNorm2d))
    if layer in BARE:
        assert (activations, norms) == (0, 0)
    else:
        assert activations == len(modules_of(published, nn.ReLU) + modules_of(published, SigmoidGELU))
        assert norms == len(modules_of(published, nn.BatchNorm2d))
    pools = MaxAbsPool2d if layer == "scs" else nn.MaxPool2d
    assert len(modules_of(network, pools)) == len(modules_of(published, nn.MaxPool2d))


@pytest.mark.parametrize("norm", ["asr", "batch_test", "mixed"])
@pytest.mark.parametrize("layer", ["conv", "xcnorm"])
def test_deep_maps_of_a_single_position_tell_images_apart(layer, norm):
    network = create_model("resnet18", layer, norm)
    network(torch.rand(3, 3, 32, 32))
    for images in (torch.rand(2, 3, 32, 32), torch.rand(1, 3, 32, 32)):
        for mode in (False, True)[: len(images)]:
            logits = network.train(mode)(images)
            assert logits.isfinite().all()
            assert len(images) == 1 or (logits[0] - logits[1]).abs().max() > 1e-5


@pytest.mark.parametrize(("layer", "options"), OPTIONS)
def test_options_reach_every_layer(layer, options):
    network = WideResNet(10, 1, Wiring(layer, **options))
    for module in modules_of(network, find_form(layer).convolution):
        assert {name: getattr(module, name) for name in options if name != "gain"} == {
            name: value for name, value in options.items() if name != "gain"
        }
    train(network, 8)


@pytest.mark.parametrize("layer", BARE)
def test_a_norm_that_was_asked_for_is_there_and_rectified_before_the_pool(layer):
    assert len(modules_of(create_model("wrn16_4", layer, "batch"), nn.BatchNorm2d)) == 13
    assert not modules_of(create_model("wrn16_4", layer, "batch"), nn.ReLU)
    assert len(modules_of(create_model("wrn16_4", layer, "instance"), nn.ReLU)) == 1


@pytest.mark.parametrize("layer", RELATIVES)
def test_biases_are_where_the_published_layer_and_the_network_have_them(layer):
    layers = modules_of(create_model("digits_cnn", layer), find_form(layer).convolution)
    assert len(layers) == 2
    assert all((module.bias is not None) == find_form(layer).bias for module in layers)
    layers = modules_of(create_model("digits_cnn", layer, "batch"), find_form(layer).convolution)
    assert all(module.bias is None for module in layers)


def test_a_weight_normalised_network_starts_as_the_plain_one():
    torch.manual_seed(0)
    plain = create_model("wrn16_4").eval()
    torch.manual_seed(0)
    network = create_model("wrn16_4", "weight_normalised").eval()
    images = torch.rand(2, 3, 16, 16)
    torch.testing.assert_close(network(images), plain(images), rtol=1e-4, atol=1e-4)


def test_rectify_first_stands_behind_the_first_layer_of_a_relative():
    network = create_model("digits_cnn", "bcos", rectify_first="abs")
    assert (network.trunk[0](torch.randn(1, 3, 9, 9)) >= 0).all()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"layer": "bcso"}, ValueError, "unknown layer 'bcso'; did you mean 'bcos'"),
        ({"layer": "bcos", "B": 2.0}, TypeError, "unknown option of layer 'bcos' 'B'.*known: 'b', 'max_out', 'scale'"),
        ({"layer": "bcos", "tau": 2.0}, TypeError, "unknown option of layer 'bcos' 'tau'"),
        ({"layer": "weight_normalised", "tau": 2.0}, TypeError, "layer='weight_normalised' has no layer options"),
        ({"layer": "sphere", "dense": "xcnorm"}, ValueError, "dense='xcnorm' does not go with layer='sphere'"),
        ({"layer": "sphere", "angular": "cosin"}, ValueError, "unknown angular 'cosin'; did you mean 'cosine'"),
    ],
)
def test_what_cannot_be_honoured_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        create_model("digits_cnn", **arguments)


PLUGIN = '''
"""A form and a norm of one's own."""

import torch
from torch import nn

from xcnorm.nn import Relative, register_norm, register_relative


@register_relative("tempered", activation=False)
class TemperedConv2d(Relative):
    def __init__(self, *geometry, strength: float = 1.0, **rest):
        super().__init__(*geometry, **rest)
        self.strength = strength

    def respond(self, input):
        return torch.tanh(self.strength * self.correlate(input, self.weight))


@register_norm("halved")
def halved(channels, positions, **settings):
    return nn.LeakyReLU(0.5)
'''

USE = """
import torch, xcnorm
from torch import nn
from xcnorm.engine import make_experiment

network = xcnorm.create_model("digits_cnn", "tempered", "halved", strength=0.5)
assert network.trunk[0][0].strength == 0.5
assert type(network.trunk[0][1]) is nn.LeakyReLU
assert len(network.trunk[0]) == 3 and type(network.trunk[0][2]) is nn.Identity
assert xcnorm.XCNormConv2d(3, 4, 3, norm="halved")(torch.rand(1, 3, 5, 5)).shape == (1, 4, 3, 3)
model = xcnorm.convert(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4, 2)), "tempered")
assert [type(m).__name__ for m in model] == ["TemperedConv2d", "Identity", "Flatten", "Linear"]
options = {"strength": 0.5, "norm": "halved"}
experiment = make_experiment({"model": {"layer": "tempered", "options": options}})
assert "tempered" in str(experiment.folder)
"""


def test_a_file_of_ones_own_is_known_everywhere(tmp_path):
    path = tmp_path / "tempered_layer.py"
    path.write_text(PLUGIN)
    environment = {**os.environ, "XCNORM_PLUGINS": str(path)}
    command = [sys.executable, "-m", "xcnorm", "train", "--layer", "tempered", "--set", "model.options.strength=2.0"]
    for arguments in ([sys.executable, "-c", USE], [*command, "--dry-run"]):
        done = subprocess.run(arguments, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert 'layer = "tempered"' in done.stdout
    assert "strength = 2.0" in done.stdout
