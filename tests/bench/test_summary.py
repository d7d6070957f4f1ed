"""What measurements come to, on numbers made up here."""

from tests.bench.made_up import made_up
from xcnorm.bench.summary import duration, memory, ratios, tables


def test_ratios_are_to_the_plain_side_of_the_same_case():
    rows = made_up(xcnorm=(4.0, 1.5))["rows"]
    assert ratios(rows, "fp32", "xcnorm", duration("eager", "both")) == {"narrow": 4.0, "wide": 1.5}
    assert ratios(rows, "fp32", "xcnorm", duration("compiled", "both")) == {"wide": 2.0}
    assert ratios(rows, "fp32", "xcnorm", memory) == {"narrow": 1.5, "wide": 1.0}


def test_the_best_mode_is_each_sides_own():
    rows = made_up(xcnorm=(0.8, 1.5))["rows"]
    assert ratios(rows, "fp32", "xcnorm", duration("best", "both")) == {"narrow": 1.6, "wide": 2.0}


def test_a_red_gate_is_told():
    result = made_up()
    for row in result["rows"]:
        if (row["case"], row["side"]) == ("wide", "xcnorm"):
            row |= {"times": {}, "memory_mib": None}
    cases, means = tables(result)
    assert cases.rows[0][2:] == ["1.00"] * 4
    assert cases.rows[1][2:] == ["gate red", "1.00", "1.00", "1.00"]
    assert means.rows[0][:2] == ["xcnorm", "1"]
