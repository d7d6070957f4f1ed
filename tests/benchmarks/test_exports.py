"""The page on exports says what was measured."""

import json
from pathlib import Path

from benchmarks.exports import BAR, table

ROOT = Path(__file__).parents[2]


def test_the_page_is_that_of_the_committed_results():
    result = json.loads((ROOT / "benchmarks" / "results" / "exports_cpu.json").read_text(encoding="utf-8"))
    assert table(result) in (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
    robust = [
        ratio for name, row in result["networks"].items() if "r_xcnorm" in name for ratio in row["ratio"].values()
    ]
    assert max(robust) <= BAR
