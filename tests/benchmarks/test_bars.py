"""The bars that a comparison is held against, on numbers made up here."""

import pytest

from benchmarks.bars import Bar, bars_table, verdicts
from tests.bench.made_up import made_up

BARS = (
    Bar("cpu", "both", "eager", {"xcnorm": 2.0, "r_xcnorm": 3.0}, worst={"xcnorm": 3.0, "r_xcnorm": 9.0}),
    Bar("cpu", "both", "best", {"xcnorm": 2.0, "r_xcnorm": 3.0}),
    Bar("cpu", "memory", "eager", {"xcnorm": 1.0, "r_xcnorm": 2.0}, case="narrow"),
    Bar("cpu", "both", "compiled", {"xcnorm": 2.0, "r_xcnorm": 3.0}, case="wide"),
    Bar("cuda", "both", "graph", {"xcnorm": 2.0, "r_xcnorm": 3.0}),
)


def verdict(result, side, quantity="both", mode="eager"):
    found = verdicts(result, BARS)
    (one,) = [v for v in found if (v["side"], v["quantity"], v["mode"]) == (side, quantity, mode)]
    return one


def test_bars_are_held_against_the_mean_and_the_worst_wide_case():
    result = made_up(xcnorm=(8.0, 0.5), xcnorm_paper=(0.1, 3.1), r_xcnorm=(3.1, 3.1))
    assert verdict(result, "xcnorm")["mean"] == pytest.approx(2.0)
    assert verdict(result, "xcnorm")["worst"] == 0.5  # the narrow one does not count
    assert verdict(result, "xcnorm")["met"]
    assert verdict(result, "xcnorm paper")["mean"] < 1
    assert not verdict(result, "xcnorm paper")["met"]
    assert verdict(result, "xcnorm paper")["worst_case"] == "wide"
    assert not verdict(result, "r_xcnorm")["met"]
    assert verdict(result, "r_xcnorm paper")["met"]


def test_bars_of_memory_of_some_cases_and_of_what_was_not_measured():
    result = made_up()
    assert verdict(result, "xcnorm", "memory")["mean"] == 1.5
    assert not verdict(result, "xcnorm", "memory")["met"]
    assert verdict(result, "r_xcnorm", "memory")["met"]
    assert {verdict["mode"] for verdict in verdicts(result, BARS)} == {"eager"}  # which mode is the best is not known
    every = {verdict["mode"] for verdict in verdicts(result | {"modes": ["eager", "compiled"]}, BARS)}
    assert every == {"eager", "compiled", "best"}


def test_a_red_gate_meets_no_bar():
    result = made_up()
    for refused in result["rows"]:
        if (refused["case"], refused["side"]) == ("wide", "xcnorm"):
            refused |= {"times": {}, "memory_mib": None}
        assert verdict(result, "xcnorm")["mean"] == 1.0
    assert verdict(result, "xcnorm")["refused"] == 1
    assert not verdict(result, "xcnorm")["met"]
    assert "1 gates red" in bars_table(verdicts(result, BARS)).rows[0][1]
