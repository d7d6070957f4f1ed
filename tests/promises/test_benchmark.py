"""A benchmark of one's own: the file of docs/extending/benchmark.md, in a temporary folder."""

import json
import tomllib

import pytest

from tests.promises import blocks, commands, plugin, run


@pytest.fixture
def path(tmp_path):
    """Of the file, beside which the page's example has written data."""
    written = plugin("benchmark", tmp_path)
    said = run("-c", blocks("benchmark", "python")[1], plugin=written)
    assert said == "60 20 ['scanner_b']\n"
    return written


def test_its_data_is_verified(path):
    (verify,) = commands("benchmark", "xcnorm data verify")
    said = run(*verify, plugin=path)
    assert "scanner a: ok: 80 images" in said
    assert "scanner b: ok: 80 images" in said


def test_it_is_trained_by_its_own_recipe(path):
    first, second = commands("benchmark", "xcnorm train")
    planned = tomllib.loads(run(*first, "--dry-run", plugin=path))
    assert (planned["benchmark"], planned["model"]["name"]) == ("two-scanners", "wrn16_4")
    assert (planned["schedule"]["epochs"], planned["schedule"]["batch"]) == (20, 32)
    assert planned["optimiser"]["name"] == "adamw"  # from the recipe fast
    run(*second, plugin=path)
    (metrics,) = (json.loads(file.read_text()) for file in path.parent.rglob("metrics.json"))
    assert (metrics["title"], metrics["metric"], metrics["steps"]) == ("Two scanners", "balanced_accuracy", 2)
    assert set(metrics["selection"]["last"]["targets"]) == {"scanner_b"}


def test_what_is_missing_is_told_in_one_line(tmp_path):
    program = """
from xcnorm import data
from xcnorm.errors import UserError

try:
    data.load("two-scanners", ".")
except UserError as error:
    print(error)
"""
    said = run("-c", program, plugin=plugin("benchmark", tmp_path))
    assert said == "scanner a is not in .: no scanner_a.npz; copy it to .\n"
