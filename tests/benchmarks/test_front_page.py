"""Every number of README.md stands in a file of results."""

import json
import re
from pathlib import Path
from statistics import fmean, geometric_mean

import pytest

from benchmarks.front_page import table
from xcnorm.bench.summary import duration, ratios
from xcnorm.methods import list_methods
from xcnorm.report.runs import find_runs

REAL = ("svhn", "mnist_m", "usps")
ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def results(name):
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())


def said(pattern):
    """The groups of a pattern, which README.md has once, wherever its lines break."""
    found = re.findall(pattern.replace(" ", r"\s+"), README)
    assert len(found) == 1, pattern
    return found[0]


def test_the_table_is_that_of_the_demo():
    assert (
        f"<!-- demo -->\n\n{table(find_runs(ROOT / 'results' / 'digits-mini').finished)}\n\n<!-- end demo -->" in README
    )


def test_the_picture_is_no_burden():
    assert (ROOT / "docs" / "front.png").stat().st_size < 150_000


def test_means_over_the_real_targets_are_those_that_were_measured():
    variants = results("digits_h200")["variants"]
    names = ("xcnorm paper", "xcnorm", "conv, instance norm, abs first", "influence, patch 3")
    means = [fmean(run[target] for run in variants[name]["runs"] for target in REAL) for name in names]
    assert [f"{mean:.0f}" for mean in means] == list(
        said(
            r"USPS from (\d+) to (\d+) % \(the paper's row: 71 %\), and a \*plain\* network with the same two gets "
            r"(\d+) %. R-XCNorm gets (\d+) %"
        )
    )


@pytest.mark.parametrize(
    ("file", "precision", "mode", "pattern"),
    [
        ("layers_h200", "bf16", "graph", r"on an H200 ([\d.]+) \(XCNorm\) and ([\d.]+) \(R-XCNorm\) in bf16"),
        ("layers_cpu", "fp32", "eager", r"on one CPU thread ([\d.]+) and ([\d.]+) \("),
    ],
)
def test_costs_are_those_that_were_measured(file, precision, mode, pattern):
    rows, value = results(file)["rows"], duration(mode, "both")
    measured = [geometric_mean(ratios(rows, precision, side, value).values()) for side in ("xcnorm", "r_xcnorm")]
    assert [f"{each:.2f}" for each in measured] == list(said(pattern))


def test_all_methods_are_counted():
    named = ("ERM", "RandConv", "Pro-RandConv", "L2D", "MetaCNN", "AdvST")
    assert said(rf"{', '.join(named)} and (\w+) more") == {15: "fifteen"}[len(list_methods()) - len(named)]
