"""A corruption of one's own: the file of docs/extending/corruption.md, in a temporary folder."""

import json

from tests.promises import commands, plugin, run

FACTS = """
import torch
from xcnorm import data
from xcnorm.data import corruptions

name = "white_balance"
assert name in corruptions.names()
assert len(corruptions.standard()) == 15 and name not in corruptions.standard() + corruptions.published()
assert name not in sum(corruptions.CATEGORIES["sdg4"].values(), ())

images = torch.stack(data.photographs())[:, :, :64, :64]
one = corruptions.corrupt(images, name, 3, seed=1)
assert torch.equal(corruptions.corrupt(images[1:], name, 3, seed=1, index=torch.arange(len(images))[1:]), one[1:])
assert not torch.equal(corruptions.corrupt(images, name, 3, seed=2), one)
assert torch.equal(one[:, 1], images[:, 1])  # cameras leave green alone

def harm(severity):
    return (corruptions.corrupt(images, name, severity, seed=1).float() - images).abs().mean().item()

assert harm(1) < harm(3) < harm(5), [harm(severity) for severity in range(1, 6)]
"""


def test_it_is_a_corruption_like_all_others(tmp_path):
    run("-c", FACTS, plugin=plugin("corruption", tmp_path))


def test_a_network_is_trained_and_tested_on_it(tmp_path):
    path = plugin("corruption", tmp_path)
    (train,) = commands("corruption", "xcnorm train")
    run(*train, "--set", "schedule.iterations=2", plugin=path)
    (metrics,) = (json.loads(file.read_text()) for file in tmp_path.rglob("metrics.json"))
    found = metrics["selection"]["last"]
    wanted = [f"{name}/{severity}" for name in ("white_balance", "fog") for severity in range(1, 6)]
    assert list(found["targets"]) == wanted
    assert set(found["robustness"]) == {"white_balance", "fog"}
    assert "white\\_balance |" in run("-m", "xcnorm", "report", "runs", "--format", "markdown", plugin=path)
