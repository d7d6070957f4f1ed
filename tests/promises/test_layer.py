"""A layer of one's own: the file of docs/extending/layer.md, in a temporary folder."""

import os

from tests.promises import commands, plugin, run, scanners

FACTS = """
import torch
from torch import nn
import xcnorm
from xcnorm.nn import FORMS, find_form

assert "quarter_turn" in FORMS
Layer = find_form("quarter_turn").convolution
layer = Layer(4, 6, 3, stride=2, padding=1, groups=2, dtype=torch.float64)
images = torch.randn(2, 4, 9, 9, dtype=torch.float64)
plain = [
    nn.functional.conv2d(images, layer.weight.rot90(turn, (2, 3)), stride=2, padding=1, groups=2) for turn in range(4)
]
torch.testing.assert_close(layer(images), torch.stack(plain).amax(0))
for turn in range(4):
    torch.testing.assert_close(layer(images.rot90(turn, (2, 3))), layer(images).rot90(turn, (2, 3)))
one = Layer(4, 6, 3, turns=1)
assert torch.equal(one(images.float()), nn.functional.conv2d(images.float(), one.weight))
assert Layer(4, 6, (3, 1), turns=2)(images.float()).shape == (2, 6, 7, 9)

for arguments, message in (
    ({"turns": 3}, "turns must be 1, 2 or 4, got 3"),
    ({"kernel_size": (3, 1)}, "does not fit on itself after a quarter turn; use turns=2"),
    ({"bias": True}, "bias=True is not supported: QuarterTurnConv2d has none"),
):
    try:
        Layer(**{"in_channels": 3, "out_channels": 4, "kernel_size": 3} | arguments)
    except ValueError as error:
        assert message in str(error), error
    else:
        raise AssertionError(arguments)
try:
    xcnorm.create_model("digits_cnn", layer="quarter_turn", turn=4)
except TypeError as error:
    assert "did you mean 'turns'" in str(error), error
else:
    raise AssertionError("an unknown option was taken")
"""


def test_it_is_a_form_that_does_what_it_says(tmp_path):
    run("-c", FACTS, plugin=plugin("layer", tmp_path))


def test_a_network_is_trained_with_it(tmp_path):
    """On the small benchmark of another page, whose plugin stands beside this one."""
    path, (benchmark, changes) = plugin("layer", tmp_path), scanners(tmp_path)
    (train,) = commands("layer", "xcnorm train")
    run(*train, *changes, "--model", "digits_cnn", plugin=path, XCNORM_PLUGINS=f"{path}{os.pathsep}{benchmark}")
    (config,) = tmp_path.rglob("config.toml")
    assert 'layer = "quarter_turn"' in config.read_text()
    assert "turns = 2" in config.read_text()
