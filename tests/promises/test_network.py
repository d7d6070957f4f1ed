"""A network of one's own: the file of docs/extending/network.md, in a temporary folder."""

import json
import os
import re

from tests.promises import ROOT, commands, plugin, run, scanners


def test_it_is_alive_in_every_form(tmp_path):
    (alive,) = commands("network", "python -m pytest")
    few = ("-p", "no:cacheprovider", "-k", "resnet9 and instance")
    assert re.search(r"\b[3-9] passed", run(*alive, *few, plugin=plugin("network", tmp_path), folder=ROOT))


def test_it_is_trained_by_the_command_of_the_page(tmp_path):
    network, (benchmark, changes) = plugin("network", tmp_path), scanners(tmp_path)
    (train,) = commands("network", "xcnorm train")
    run(*train, *changes, plugin=network, XCNORM_PLUGINS=f"{network}{os.pathsep}{benchmark}")
    (folder,) = (file.parent for file in tmp_path.rglob("metrics.json"))
    assert 'name = "resnet9"' in (folder / "config.toml").read_text()
    assert json.loads((folder / "metrics.json").read_text())["steps"] == 2


def test_its_layers_are_measured_by_name(tmp_path):
    program = """
from xcnorm.bench.models import cases

(case,) = cases(["resnet9"], "cpu")
print(case.name, len(case.shapes))
"""
    assert run("-c", program, plugin=plugin("network", tmp_path)) == "resnet9, 32 px, batch 32 6\n"
