"""Tabulation: tables from the runs of arms, with means, footnotes, the best of each column and comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xcnorm.metrics import average, compare, summarise
from xcnorm.report.arms import Arm, Values
from xcnorm.report.charts import Chart
from xcnorm.report.runs import Run
from xcnorm.report.tables import Cell, Column, Measure, Origin, Row, Table, signed

AVERAGE = "average"

Notes = Callable[[Run, str], Iterable[str]]
"""What a reader must know about a column of a run; the reason, if the run lacks it."""


@dataclass(frozen=True)
class Content:
    """What a table shows, and its chart.

    Attributes:
        title: The table's heading.
        measure: What its numbers are.
        columns: Its columns, without the average.
        values: The numbers of a run by column, in the measure's unit.
        notes: What a reader must know about them.
        chart: The chart of the same numbers, still without series; None where there is none.
        means: Further averages: by name, over which columns each is taken.
    """

    title: str
    measure: Measure
    columns: tuple[str, ...]
    values: Values
    notes: Notes = lambda run, column: ()
    chart: Chart | None = None
    means: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def make_table(content: Content, arms: Sequence[Arm], published: Sequence[Mapping[str, Any]] = ()) -> Table:
    """Make a table with a row for each arm.

    The average is over the columns that every run has, in all rows alike: otherwise rows could not be compared. A
    footnote says so where that leaves columns out, and the paper's averages are then taken over the same columns. A
    further mean is there where every run has all of its columns. Arms are compared by the first of these, or else by
    the average.

    Args:
        content: What it shows.
        arms: Its rows.
        published: Rows of the paper that have no arm: a ``label``, and numbers by column.
    """
    footnotes = _Footnotes()
    measured = [arm.by_seed(content.values) for arm in arms]
    seeds = [numbers for by_seed in measured for numbers in by_seed.values()]
    columns = [Column(name, footnotes.mark(_column_notes(name, content, arms, seeds))) for name in content.columns]
    common = [name for name in content.columns if all(name in numbers for numbers in seeds)]
    averaged = content.measure.averaged and bool(common)
    if averaged:
        short = [f"over {', '.join(common)}: the columns that every run has"] if len(common) < len(columns) else []
        columns.append(Column(AVERAGE, footnotes.mark(short)))
        for numbers in seeds:
            numbers[AVERAGE] = average({name: numbers[name] for name in common})
    means = {
        name: members
        for name, members in content.means.items()
        if all(member in numbers for numbers in seeds for member in members)
    }
    for name, members in means.items():
        columns.append(Column(name, footnotes.mark([f"over {', '.join(members)}"])))
        for numbers in seeds:
            numbers[name] = average({member: numbers[member] for member in members})

    def paper(numbers: Mapping[str, Any]) -> list[float | None]:
        """The paper's numbers by column; its average as printed, or over the columns that our runs have if fewer."""
        known = {name: numbers.get(name) for name in content.columns}
        if averaged:
            known[AVERAGE] = numbers.get(AVERAGE)
            if len(common) < len(content.columns) or AVERAGE not in numbers:
                whole = all(name in numbers for name in common)
                known[AVERAGE] = average({name: numbers[name] for name in common}) if whole else None
        for name, members in means.items():
            whole = all(member in numbers for member in members)
            known[name] = average({member: numbers[member] for member in members}) if whole else None
        return list(known.values())

    def unmeasured(label: str, numbers: Mapping[str, Any], origin: Origin, note: str) -> Row:
        return Row(label, tuple(map(Cell, paper(numbers))), origin, footnotes.mark([note]))

    only = "the paper's numbers; nothing was measured here"
    rows = [unmeasured(str(record["label"]), record, "published", only) for record in published]
    for arm, by_seed in zip(arms, measured, strict=True):
        if by_seed:
            beside = zip(columns, paper(arm.paper), strict=True)
            rows.append(Row(arm.label, tuple(_cell(by_seed, head.name, number, footnotes) for head, number in beside)))
        else:
            whose = "; the paper's numbers" if arm.paper else ""
            rows.append(unmeasured(arm.label, arm.paper, "not run", f"no finished run yet{whose}"))
    ranked = _ranked(rows, content.measure)
    compared = _comparisons(arms, measured, content.measure, next(iter(means), AVERAGE)) if averaged else ()
    return Table(content.title, content.measure, tuple(columns), ranked, tuple(footnotes.texts), compared)


def make_grid(
    title: str, measure: Measure, arm: Arm, rows: Sequence[str], columns: Sequence[str], values: Values
) -> Table:
    """Make a table of one arm: a row for each corruption, a column for each severity.

    Args:
        title: Its heading.
        measure: What its numbers are.
        arm: Whose numbers they are.
        rows: The first half of a number's name.
        columns: The second half, behind a slash.
        values: The numbers of a run by name.
    """
    footnotes = _Footnotes()
    by_seed = arm.by_seed(values)
    made = [Row(row, tuple(_cell(by_seed, f"{row}/{c}", None, footnotes) for c in columns)) for row in rows]
    return Table(title, measure, tuple(map(Column, columns)), tuple(made), tuple(footnotes.texts))


class _Footnotes:
    """Footnotes in the order in which they are first needed."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def mark(self, texts: Iterable[str]) -> tuple[int, ...]:
        """The numbers of some footnotes; those that are new are added."""
        unique = list(dict.fromkeys(texts))
        self.texts += [text for text in unique if text not in self.texts]
        return tuple(self.texts.index(text) for text in unique)


def _column_notes(
    name: str, content: Content, arms: Sequence[Arm], seeds: Sequence[Mapping[str, float]]
) -> Sequence[str]:
    texts = [text for arm in arms for run in arm.runs for text in content.notes(run, name)]
    untested = seeds and not any(name in numbers for numbers in seeds)
    return texts or ([f"{name} was not tested in these runs"] if untested else [])


def _cell(by_seed: Mapping[int, Mapping[str, float]], name: str, paper: float | None, footnotes: _Footnotes) -> Cell:
    values = [numbers[name] for numbers in by_seed.values() if name in numbers]
    if not values:
        return Cell(paper=paper)
    summary = summarise(values)
    mark = footnotes.mark([f"only {summary.count} of {len(by_seed)} seeds have it"] * (summary.count < len(by_seed)))
    if summary.count == 1:
        return Cell(summary.mean, None, 1, paper, notes=mark)
    return Cell(summary.mean, summary.std, summary.count, paper, notes=mark, low=summary.low, high=summary.high)


def _ranked(rows: Sequence[Row], measure: Measure) -> tuple[Row, ...]:
    """The rows with the best and second best of each column marked; what looks equal in print is equal."""
    if not rows or measure.lower_is_better is None:
        return tuple(rows)

    def shown(cell: Cell) -> float | None:
        return None if cell.value is None else round(cell.value, measure.decimals)

    ranks: list[dict[float | None, int]] = []
    for cells in zip(*(row.cells for row in rows), strict=True):
        numbers = {number for cell in cells if (number := shown(cell)) is not None}
        best = sorted(numbers, reverse=not measure.lower_is_better)[:2] if len(numbers) > 1 else []
        ranks.append({number: place + 1 for place, number in enumerate(best)})
    return tuple(
        replace(row, cells=tuple(replace(c, rank=r.get(shown(c), 0)) for c, r in zip(row.cells, ranks, strict=True)))
        for row in rows
    )


def _comparisons(
    arms: Sequence[Arm], measured: Sequence[Mapping[int, Mapping[str, float]]], measure: Measure, mean: str
) -> tuple[str, ...]:
    """Each arm's average, or other mean, against the first arm's, over the seeds that both have."""
    pairs = [(arm, by_seed) for arm, by_seed in zip(arms, measured, strict=True) if by_seed]
    over = "on average" if mean == AVERAGE else f"in the {mean}"
    sentences = []
    for arm, ours in pairs[1:]:
        first, theirs = pairs[0]
        seeds = sorted(ours.keys() & theirs.keys())
        if len(seeds) > 1:
            found = compare([ours[seed][mean] for seed in seeds], [theirs[seed][mean] for seed in seeds])
            difference, low, high = (signed(n, measure.decimals) for n in (found.difference, found.low, found.high))
            sentences.append(
                f"{arm.label} against {first.label}: {difference} {over} (95 % interval {low} to {high}), "
                f"p = {found.p_value:.3g} ({found.test} test, {len(seeds)} paired seeds)"
            )
    return tuple(sentences)
