"""What measurements come to, on numbers made up here."""

import pytest

from xcnorm.bench.sides import OURS, PLAIN
from xcnorm.bench.summary import Bar, duration, fit, judge, memory, ratios, tables

BARS = (
    Bar("cpu", "both", "eager", {"xcnorm": 2.0, "r_xcnorm": 3.0}, worst={"xcnorm": 3.0, "r_xcnorm": 9.0}),
    Bar("cpu", "both", "best", {"xcnorm": 2.0, "r_xcnorm": 3.0}),
    Bar("cpu", "memory", "eager", {"xcnorm": 1.0, "r_xcnorm": 2.0}, case="narrow"),
    Bar("cpu", "both", "compiled", {"xcnorm": 2.0, "r_xcnorm": 3.0}, case="wide"),
    Bar("cuda", "both", "graph", {"xcnorm": 2.0, "r_xcnorm": 3.0}),
)


def row(case, side, eager, compiled=None, memory_mib=1.0):
    def times(both):
        spread = {"low": both, "median": both, "high": both}
        return {"inference": spread, "forward": spread, "both": spread, "backward": {"median": 0.0}}

    modes = {"eager": times(eager)} | ({"compiled": times(compiled)} if compiled else {})
    return {"case": case, "precision": "fp32", "side": side, "gate": None, "memory_mib": memory_mib, "times": modes}


def made_up(**sides):
    """A result in which a side takes some time on a narrow and on a wide layer, where the plain one takes 1."""
    rows = [row(case, PLAIN, 1.0, 0.5) for case in ("narrow", "wide")]
    for side in OURS:
        narrow, wide = sides.get(side.replace(" ", "_"), (1.0, 1.0))
        rows += [row("narrow", side, narrow, memory_mib=1.5), row("wide", side, wide, 1.0)]
    cases = {"narrow": {"channels_out": 16}, "wide": {"channels_out": 64}}
    result = {
        "subject": "layers",
        "device": "cpu",
        "precisions": ["fp32"],
        "modes": ["eager"],
        "cases": cases,
        "rows": rows,
    }
    return result | {"bars": judge(result, BARS), "growth": []}


def verdict(result, side, quantity="both", mode="eager"):
    (found,) = [v for v in result["bars"] if (v["side"], v["quantity"], v["mode"]) == (side, quantity, mode)]
    return found


def test_ratios_are_to_the_plain_side_of_the_same_case():
    rows = made_up(xcnorm=(4.0, 1.5))["rows"]
    assert ratios(rows, "fp32", "xcnorm", duration("eager", "both")) == {"narrow": 4.0, "wide": 1.5}
    assert ratios(rows, "fp32", "xcnorm", duration("compiled", "both")) == {"wide": 2.0}
    assert ratios(rows, "fp32", "xcnorm", memory) == {"narrow": 1.5, "wide": 1.0}


def test_the_best_mode_is_each_sides_own():
    rows = made_up(xcnorm=(0.8, 1.5))["rows"]
    assert ratios(rows, "fp32", "xcnorm", duration("best", "both")) == {"narrow": 1.6, "wide": 2.0}


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
    assert {verdict["mode"] for verdict in result["bars"]} == {"eager"}  # which mode is the best is not known
    every = {verdict["mode"] for verdict in judge(result | {"modes": ["eager", "compiled"]}, BARS)}
    assert every == {"eager", "compiled", "best"}


def test_a_red_gate_meets_no_bar():
    result = made_up()
    for refused in result["rows"]:
        if (refused["case"], refused["side"]) == ("wide", "xcnorm"):
            refused |= {"times": {}, "memory_mib": None}
    result["bars"] = judge(result, BARS)
    assert verdict(result, "xcnorm")["mean"] == 1.0
    assert verdict(result, "xcnorm")["refused"] == 1
    assert not verdict(result, "xcnorm")["met"]
    cases, _, _, bars = tables(result)
    assert "gate red" in cases.rows[1]
    assert "1 gates red" in bars.rows[0][1]


def test_growth():
    assert fit([2, 4, 8], [1, 4, 16]) == {"slope": 2.0, "r2": 1.0, "largest_step": 2.0}
    cliff = fit([1, 2, 4, 8], [1, 2, 12, 24])
    assert cliff["largest_step"] == 3.0
    assert cliff["r2"] < 1
