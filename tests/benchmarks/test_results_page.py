"""The page on results is that of the files; after a change: python -m benchmarks.results_page docs/results.md."""

from pathlib import Path

from benchmarks.results_page import RESULTS, page

PAGE = Path(__file__).parents[2] / "docs" / "results.md"


def test_the_page_is_current():
    assert PAGE.read_text() == page()


def test_it_has_every_file():
    assert [path.name for path in RESULTS.glob("*.json") if f"`{path.name}`" not in PAGE.read_text()] == []
