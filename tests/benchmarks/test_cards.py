"""The pages of cards are what the code says now; after a change: python -m benchmarks.cards docs."""

from pathlib import Path

from benchmarks.cards import data_cards, method_cards

DOCS = Path(__file__).parents[2] / "docs"


def test_the_cards_of_data_are_current():
    assert (DOCS / "data-cards.md").read_text() == data_cards()


def test_the_cards_of_methods_are_current():
    assert (DOCS / "methods" / "cards.md").read_text() == method_cards()


def test_every_setting_is_explained():
    rows = [line for line in method_cards().splitlines() if line.startswith("| `")]
    assert len(rows) > 80
    assert [row for row in rows if not row.split(" | ")[2].strip(" |")] == []
