"""A reduction of one's own: the file of docs/extending/reduction.md, in a temporary folder."""

from tests.promises import commands, plugin, run

FACTS = """
import copy
import torch
import xcnorm

layer = xcnorm.RXCNormConv2d(2, 4, 3, scale="annealed", norm="none")
assert layer.options.c_init == 3 and layer.correlation.per_patch
images = torch.rand(2, 2, 8, 8)
start = layer.scale(torch.float32, torch.device("cpu"))
assert start.item() == 30

layer.eval()(images)
assert layer.scale(torch.float32, torch.device("cpu")) == start
plain = xcnorm.XCNormConv2d(2, 4, 3, norm="none")
plain.load_state_dict(layer.state_dict() | {}, strict=False)
assert (layer(images) - plain(images)).abs().max() < 0.02  # so large a scale leaves XCNorm

layer.train()
for _ in range(2000):
    layer.scale.update(torch.zeros(1))
assert abs(layer.scale(torch.float32, torch.device("cpu")).item() - 3) < 1e-3
again = xcnorm.RXCNormConv2d(2, 4, 3, scale="annealed", norm="none")
again.load_state_dict(layer.state_dict())
patch = xcnorm.RXCNormConv2d(2, 4, 3, scale="patch", norm="none")
patch.load_state_dict(layer.state_dict(), strict=False)
torch.testing.assert_close(again.eval()(images), patch(images), rtol=0, atol=1e-4)
"""


def test_it_is_a_scale_of_every_layer(tmp_path):
    run("-c", FACTS, plugin=plugin("reduction", tmp_path))


def test_a_network_is_trained_with_it(tmp_path):
    path = plugin("reduction", tmp_path)
    (train,) = commands("reduction", "xcnorm train")
    run(*train, "--set", "schedule.iterations=2", plugin=path)
    (config,) = tmp_path.rglob("config.toml")
    assert 'scale = "annealed"' in config.read_text()
