"""The page on trust is made from results alone, and says what they say."""

import json
from pathlib import Path

import pytest

from benchmarks.trust import write_page
from xcnorm.errors import UserError

ROOT = Path(__file__).parents[2]
HERE = {"device": "a CPU", "cores": 2, "torch": "2.13.0", "python": "3.11.7", "commit": "abc1234"}


def test_a_result_takes_its_place_on_the_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n\n<!-- one -->\nold\n<!-- end one -->\n\nafter\n")
    rows = [{"what": "a|b <i>", "cases": 12345, "worst": 0.000123}, {"what": "c", "cases": 1, "worst": None}]
    for _ in range(2):  # the second time nothing changes
        write_page({"one": {"environment": HERE, "seconds": 90, "rows": rows}}, page)
        assert page.read_text() == (
            "before\n\n<!-- one -->\n\n"
            "On a CPU, 2 cores, 2 minutes; torch 2.13.0, Python 3.11.7, commit abc1234.\n\n"
            "| what | cases | worst |\n| --- | ---: | ---: |\n| a\\|b &lt;i> | 12,345 | 0.000123 |\n| c | 1 | - |\n\n"
            "<!-- end one -->\n\nafter\n"
        )


def test_a_page_without_the_place_is_left_alone(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("nothing\n")
    with pytest.raises(UserError, match="<!-- one --> and <!-- end one -->"):
        write_page({"one": {"environment": HERE, "rows": [{"what": "a"}]}}, page)
    assert page.read_text() == "nothing\n"


def test_the_page_is_that_of_the_committed_results(tmp_path):
    files = sorted((ROOT / "benchmarks" / "results" / "trust").glob("*.json"))
    assert files
    page = tmp_path / "trust.md"
    page.write_text((ROOT / "docs" / "trust.md").read_text())
    write_page({path.stem: json.loads(path.read_text()) for path in files}, page)
    assert page.read_text() == (ROOT / "docs" / "trust.md").read_text()
