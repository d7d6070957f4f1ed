"""Tables: rows of cells, with everything that a reader must know in footnotes.

`xcnorm.report.tabulate` makes them, `xcnorm.report.renderers` and `xcnorm.report.html` print them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

DASH = "–"

Origin = Literal["measured", "published", "not run"]


@dataclass(frozen=True)
class Cell:
    """One number of a table.

    Attributes:
        value: The mean over seeds, or the paper's number in a row that was not measured; None where there is none.
        deviation: The sample standard deviation over seeds; None for fewer than two.
        count: Over how many seeds; 0 in a row that was not measured.
        low: Where the 95 % bootstrap interval of the mean begins; None for fewer than two seeds.
        high: Where it ends.
        paper: What the paper reports for the same thing, where it does.
        rank: 1 for the best of its column, 2 for the second best, else 0.
        notes: Which of the table's notes belong to it, counted from 0.
    """

    value: float | None = None
    deviation: float | None = None
    count: int = 0
    paper: float | None = None
    rank: int = 0
    notes: tuple[int, ...] = ()
    low: float | None = None
    high: float | None = None

    @property
    def gap(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.value is None or self.paper is None else self.value - self.paper


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: Its heading.
        notes: Which of the table's notes belong to it.
    """

    name: str
    notes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        label: Its heading.
        cells: A cell for each column.
        origin: Where its numbers come from: they were ``"measured"``, or are the paper's for a row that is only
            ``"published"`` or for an arm that was ``"not run"`` yet.
        notes: Which of the table's notes belong to it.
    """

    label: str
    cells: tuple[Cell, ...]
    origin: Origin = "measured"
    notes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Measure:
    """What the numbers of a table are.

    Attributes:
        unit: What they are counted in, such as ``"accuracy in percent"``.
        decimals: How many digits are shown behind the point.
        lower_is_better: Whether the lowest number is the best; None where that differs from column to column, and
            none is marked as the best.
        averaged: Whether the columns are scores of the same kind, on several targets, and have an average.
    """

    unit: str
    decimals: int = 2
    lower_is_better: bool | None = False
    averaged: bool = True


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        title: Its heading.
        measure: What its numbers are.
        columns: Its columns.
        rows: Its rows; those that are only published come first, as in the paper.
        notes: Its footnotes.
        comparisons: What pairing the seeds of two arms says, in a sentence each.
        heading: Its title where it stands alone, which also names what it belongs to.
        caption: What its numbers are, over how many seeds, of which weights.
    """

    title: str
    measure: Measure
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    comparisons: tuple[str, ...] = ()
    heading: str = ""
    caption: str = ""

    def number(self, value: float | None) -> str:
        """A number of this table as it is printed; a dash where there is none."""
        return DASH if value is None else f"{value:.{self.measure.decimals}f}"

    def gap(self, cell: Cell) -> str:
        """What a cell lacks to the paper, or has more, as it is printed."""
        return DASH if cell.gap is None else signed(cell.gap, self.measure.decimals)

    def miss(self, cell: Cell) -> float:
        """By how much a cell is worse than the paper, as far as that shows in print; 0 where it is not."""
        gap = round(cell.gap or 0.0, self.measure.decimals)
        return max(0.0, gap if self.measure.lower_is_better else -gap)

    @property
    def verdict(self) -> str:
        """How many of the paper's numbers are reached, and the widest miss, in a sentence; empty where it has none."""
        places = [
            (row.label, column.name, cell)
            for row in self.rows
            for column, cell in zip(self.columns, row.cells, strict=True)
            if cell.gap is not None
        ]
        if not places:
            return ""
        label, column, worst = max(places, key=lambda place: self.miss(place[2]))
        missed = f"; the widest miss is {label} on {column}, {self.gap(worst)}" if self.miss(worst) else ""
        reached = sum(not self.miss(cell) for *_, cell in places)
        return f"{reached} of {len(places)} numbers of the paper are reached{missed}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        rows = []
        for row in self.rows:
            cells = {}
            for column, cell in zip(self.columns, row.cells, strict=True):
                shown = {"value": cell.value, "deviation": cell.deviation, "seeds": cell.count}
                cells[column.name] = shown | {"paper": cell.paper, "gap": cell.gap}
            rows.append({"label": row.label, "origin": row.origin, "cells": cells})
        return {
            "title": self.title,
            "caption": self.caption,
            "unit": self.measure.unit,
            "rows": rows,
            "notes": list(self.notes),
            "comparisons": list(self.comparisons),
            "verdict": self.verdict,
        }


def signed(number: float, decimals: int) -> str:
    """A difference as it is printed: with its sign, and a minus that is as wide as the plus.

    Example:
        >>> signed(-1.234, 2), signed(-0.001, 2)
        ('−1.23', '+0.00')
    """
    rounded = round(number, decimals) + 0.0  # there is no negative zero in print
    return f"{rounded:+.{decimals}f}".replace("-", "−")
