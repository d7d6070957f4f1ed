"""A norm of one's own: the file of docs/extending/norm.md, in a temporary folder."""

import os

from tests.promises import commands, plugin, run, scanners

FACTS = """
import math
import torch
from torch import nn
import xcnorm
from xcnorm.errors import UserError
from xcnorm.nn import make_norm, synchronise

norm, torchs = make_norm("batch_prior", 3, 2, affine=True), nn.BatchNorm2d(3)
images = 2 + torch.randn(8, 3, 5, 5)
torch.testing.assert_close(norm(images), torchs(images))
for name, value in torchs.state_dict().items():
    torch.testing.assert_close(norm.state_dict()[name], value)

for parameter in (norm.weight, norm.bias, torchs.weight, torchs.bias):
    nn.init.constant_(parameter, 0.5)
moved = make_norm("batch_prior", 3, 2, affine=True).eval()
mean, variance = images.mean((0, 2, 3)), images.var((0, 2, 3))
moved.load_state_dict(norm.state_dict() | {"running_mean": mean, "running_var": variance})
# The averages are those of the batch, but for a variance that is unbiased.
torch.testing.assert_close(moved(images), torchs(images), rtol=1e-2, atol=1e-2)

norm = make_norm("batch_prior", 1, 1).eval()
norm.running_mean.fill_(3.0)
norm.running_var.fill_(4.0)
batch = torch.tensor([[[7.0, 9.0]]]).repeat(16, 1, 1)  # mean 8, variance 1, as many images as the averages count for
expected = torch.tensor([7 - 5.5, 9 - 5.5]) / math.sqrt(2.5 + norm.eps)
torch.testing.assert_close(norm(batch)[0, 0], expected)
alone = torch.tensor([[[5.0]]])  # which has no statistics
torch.testing.assert_close(norm(alone).item(), 2 / math.sqrt(4 + norm.eps))
assert norm.running_mean.item() == 3 and norm.half()(batch.half()).dtype == torch.float16

layer = xcnorm.XCNormConv2d(3, 8, 3, norm="batch_prior")
bare = xcnorm.XCNormConv2d(3, 8, 3, norm="none")
bare.load_state_dict({k: v for k, v in layer.state_dict().items() if "norm" not in k})
torch.testing.assert_close(layer(images), nn.BatchNorm2d(8, affine=False)(bare(images)))
with torch.no_grad():
    torch.testing.assert_close(layer.eval()(images), layer.stages.norm(bare(images)))
assert xcnorm.XCNormLinear(6, 4, norm="batch_prior")(torch.rand(5, 6)).shape == (5, 4)
try:
    synchronise(layer)
except UserError as error:
    assert "cannot share its statistics between processes" in str(error), error
else:
    raise AssertionError("its statistics stayed apart silently")
"""


def test_it_is_a_norm_that_does_what_it_says(tmp_path):
    run("-c", FACTS, plugin=plugin("norm", tmp_path))


def test_a_network_is_trained_with_it(tmp_path):
    """On the small benchmark of another page, whose plugin stands beside this one."""
    path, (benchmark, changes) = plugin("norm", tmp_path), scanners(tmp_path)
    (train,) = commands("norm", "xcnorm train")
    run(*train, *changes, "--model", "digits_cnn", plugin=path, XCNORM_PLUGINS=f"{path}{os.pathsep}{benchmark}")
    (config,) = tmp_path.rglob("config.toml")
    assert 'norm = "batch_prior"' in config.read_text()
