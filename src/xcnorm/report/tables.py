"""Tables: a row for each arm, a cell for each column, and everything a reader must know in footnotes.

A table knows nothing of how it is printed; `xcnorm.report.renderers` and `xcnorm.report.html` do that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from xcnorm.metrics import average, compare, summarise
from xcnorm.report.arms import Arm
from xcnorm.report.runs import Run

AVERAGE = "average"
DASH = "–"

Values = Callable[[Run], Mapping[str, float]]
Notes = Callable[[Run, str], Iterable[str]]
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
class Look:
    """What the numbers of a table are.

    Attributes:
        unit: What they are counted in, such as ``"accuracy in percent"``.
        decimals: How many digits are shown behind the point.
        lower_is_better: Whether the lowest number is the best.
        tested: Whether they come from testing chosen weights, which is also when columns have an average; training
            losses do not.
    """

    unit: str
    decimals: int = 2
    lower_is_better: bool = False
    tested: bool = True


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        title: Its heading.
        look: What its numbers are.
        columns: Its columns.
        rows: Its rows; those that are only published come first, as in the paper.
        notes: Its footnotes.
        comparisons: What pairing the seeds of two arms says, in a sentence each.
        heading: Its title where it stands alone, which also names what it belongs to.
        caption: What its numbers are, over how many seeds, of which weights.
    """

    title: str
    look: Look
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    comparisons: tuple[str, ...] = ()
    heading: str = ""
    caption: str = ""

    def number(self, value: float | None) -> str:
        """A number of this table as it is printed; a dash where there is none."""
        return DASH if value is None else f"{value:.{self.look.decimals}f}"

    def gap(self, cell: Cell) -> str:
        """What a cell lacks to the paper, or has more, as it is printed."""
        return DASH if cell.gap is None else signed(cell.gap, self.look.decimals)

    def miss(self, cell: Cell) -> float:
        """By how much a cell is worse than the paper, as far as that shows in print; 0 where it is not."""
        gap = round(cell.gap or 0.0, self.look.decimals)
        return max(0.0, gap if self.look.lower_is_better else -gap)

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
            "unit": self.look.unit,
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


class _Footnotes:
    """Footnotes in the order in which they are first needed."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def mark(self, texts: Iterable[str]) -> tuple[int, ...]:
        """The numbers of some footnotes; those that are new are added."""
        unique = list(dict.fromkeys(texts))
        self.texts += [text for text in unique if text not in self.texts]
        return tuple(self.texts.index(text) for text in unique)


def seed_values(arm: Arm, values: Values) -> dict[int, dict[str, float]]:
    """The values of an arm's columns for each seed; the runs of a seed on several sources are put together."""
    by_seed: dict[int, dict[str, float]] = {}
    for run in arm.runs:
        by_seed.setdefault(run.seed, {}).update(values(run))
    return by_seed


def make_table(
    title: str,
    look: Look,
    arms: Sequence[Arm],
    columns: Sequence[str],
    values: Values,
    notes: Notes = lambda run, column: (),
    published: Sequence[Mapping[str, Any]] = (),
) -> Table:
    """Make a table.

    The average is over the columns that every run has, in all rows alike: otherwise rows could not be compared. A
    footnote says so where that leaves columns out, and the paper's averages are then taken over the same columns.

    Args:
        title: Its heading.
        look: What its numbers are.
        arms: Its rows.
        columns: Its columns, without the average.
        values: The numbers of a run by column, in the table's unit.
        notes: What a reader must know about a column of a run; the reason, if the run lacks it.
        published: Rows of the paper that have no arm: a ``label``, and numbers by column.
    """
    footnotes = _Footnotes()
    measured = [seed_values(arm, values) for arm in arms]
    seeds = [numbers for by_seed in measured for numbers in by_seed.values()]
    common = [column for column in columns if all(column in numbers for numbers in seeds)]
    heads = [_head(column, arms, seeds, notes, footnotes) for column in columns]
    averaged = look.tested and bool(common)
    if averaged:
        short = [f"over {', '.join(common)}: the columns that every run has"] if len(common) < len(columns) else []
        heads.append(Column(AVERAGE, footnotes.mark(short)))

    def paper(numbers: Mapping[str, Any]) -> list[float | None]:
        own = [numbers.get(column) for column in columns]
        return [*own, _paper_average(numbers, columns, common)] if averaged else own

    rows = []
    for record in published:
        mark = footnotes.mark(["the paper's numbers; nothing was measured here"])
        rows.append(Row(str(record["label"]), tuple(Cell(value) for value in paper(record)), "published", mark))
    for arm, by_seed in zip(arms, measured, strict=True):
        if not by_seed:
            whose = "; the paper's numbers" if arm.paper else ""
            mark = footnotes.mark([f"no finished run yet{whose}"])
            rows.append(Row(arm.label, tuple(Cell(value) for value in paper(arm.paper)), "not run", mark))
            continue
        gathered = [[numbers[column] for numbers in by_seed.values() if column in numbers] for column in columns]
        if averaged:
            gathered.append([_mean(numbers, common) for numbers in by_seed.values()])
        theirs = paper(arm.paper)
        cells = [_cell(own, their, len(by_seed), footnotes) for own, their in zip(gathered, theirs, strict=True)]
        rows.append(Row(arm.label, tuple(cells)))
    labelled = [(arm.label, by_seed) for arm, by_seed in zip(arms, measured, strict=True) if by_seed]
    compared = _comparisons(labelled, common, look) if averaged else ()
    return Table(title, look, tuple(heads), _ranked(rows, look), tuple(footnotes.texts), compared)


def make_grid(title: str, look: Look, arm: Arm, rows: Sequence[str], columns: Sequence[str], values: Values) -> Table:
    """Make a table of one arm: a row for each corruption, a column for each severity.

    Args:
        title: Its heading.
        look: What its numbers are.
        arm: Whose numbers they are.
        rows: The first half of a number's name.
        columns: The second half, behind a slash.
        values: The numbers of a run by name.
    """
    footnotes = _Footnotes()
    by_seed = seed_values(arm, values)

    def cell(name: str) -> Cell:
        return _cell([numbers[name] for numbers in by_seed.values() if name in numbers], None, len(by_seed), footnotes)

    made = [Row(row, tuple(cell(f"{row}/{column}") for column in columns)) for row in rows]
    return Table(title, look, tuple(Column(column) for column in columns), tuple(made), tuple(footnotes.texts))


def _head(
    column: str, arms: Sequence[Arm], seeds: Sequence[Mapping[str, float]], notes: Notes, footnotes: _Footnotes
) -> Column:
    texts = [text for arm in arms for run in arm.runs for text in notes(run, column)]
    if seeds and not texts and not any(column in numbers for numbers in seeds):
        texts = [f"{column} was not tested in these runs"]
    return Column(column, footnotes.mark(texts))


def _cell(values: Sequence[float], paper: float | None, seeds: int, footnotes: _Footnotes) -> Cell:
    if not values:
        return Cell(paper=paper)
    summary = summarise(values)
    mark = footnotes.mark([f"only {summary.count} of {seeds} seeds have it"] if summary.count < seeds else [])
    if summary.count == 1:
        return Cell(summary.mean, None, 1, paper, notes=mark)
    return Cell(summary.mean, summary.std, summary.count, paper, notes=mark, low=summary.low, high=summary.high)


def _mean(numbers: Mapping[str, float], columns: Sequence[str]) -> float:
    return average({column: numbers[column] for column in columns})


def _paper_average(numbers: Mapping[str, Any], columns: Sequence[str], common: Sequence[str]) -> float | None:
    """As printed, or over the columns that our runs have if those are fewer."""
    if len(common) == len(columns) and AVERAGE in numbers:
        return float(numbers[AVERAGE])
    return _mean(numbers, common) if all(column in numbers for column in common) else None


def _ranked(rows: Sequence[Row], look: Look) -> tuple[Row, ...]:
    """The rows with the best and second best of each column marked; what looks equal in print is equal."""
    if not rows:
        return ()
    best: list[list[float]] = []
    for cells in zip(*(row.cells for row in rows), strict=True):
        shown = {round(cell.value, look.decimals) for cell in cells if cell.value is not None}
        best.append(sorted(shown, reverse=not look.lower_is_better)[:2] if len(shown) > 1 else [])

    def rank(cell: Cell, order: list[float]) -> int:
        shown = None if cell.value is None else round(cell.value, look.decimals)
        return order.index(shown) + 1 if shown in order else 0

    return tuple(
        replace(row, cells=tuple(replace(c, rank=rank(c, order)) for c, order in zip(row.cells, best, strict=True)))
        for row in rows
    )


def _comparisons(
    measured: Sequence[tuple[str, Mapping[int, Mapping[str, float]]]], common: Sequence[str], look: Look
) -> tuple[str, ...]:
    """Each arm's average against the first arm's, over the seeds that both have."""
    averages = [
        (label, {seed: _mean(numbers, common) for seed, numbers in by_seed.items()}) for label, by_seed in measured
    ]
    sentences = []
    for label, ours in averages[1:]:
        first, theirs = averages[0]
        seeds = sorted(ours.keys() & theirs.keys())
        if len(seeds) > 1:
            found = compare([ours[seed] for seed in seeds], [theirs[seed] for seed in seeds])
            difference, low, high = (signed(n, look.decimals) for n in (found.difference, found.low, found.high))
            sentences.append(
                f"{label} against {first}: {difference} on average (95 % interval {low} to {high}), "
                f"p = {found.p_value:.3g} ({found.test} test, {len(seeds)} paired seeds)"
            )
    return tuple(sentences)
