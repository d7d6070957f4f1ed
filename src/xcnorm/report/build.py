"""Reports: the sections, tables and charts that are made of runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from xcnorm.errors import UserError, unknown_name
from xcnorm.report import charts
from xcnorm.report.arms import Arm, arrange, group
from xcnorm.report.charts import Chart
from xcnorm.report.kinds import KINDS, grids
from xcnorm.report.runs import Broken, Run, Runs
from xcnorm.report.tables import Table
from xcnorm.report.tabulate import make_table

if TYPE_CHECKING:
    from xcnorm.engine.presets import Preset

SELECTIONS = {
    "last": "the weights after the last step",
    "best_on_source": "the weights that did best on the source's validation images",
    "best_on_probe": "the weights that did best on the source's validation images through other augmentations",
    "oracle": "the weights that did best on the targets themselves",
}
ORACLE_MARK = "diagnostic, not a result"
ORACLE = (
    "These weights were chosen by looking at the targets. That is a diagnostic of what a better choice could gain, "
    "not a result: nobody who has to choose weights knows the targets."
)


@dataclass(frozen=True)
class Section:
    """One benchmark, or one preset.

    Attributes:
        name: That of the benchmark or preset.
        title: Its heading.
        arms: What is compared.
        tables: Its tables.
        charts: Its charts.
        notes: What a reader must know about all of it.
    """

    name: str
    title: str
    arms: tuple[Arm, ...]
    tables: tuple[Table, ...]
    charts: tuple[Chart, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """Everything that is shown.

    Attributes:
        title: Its heading.
        selection: Which weights were tested; one of `SELECTIONS`.
        sections: What was found.
        broken: The runs that are not in it, and why.
    """

    title: str
    selection: str
    sections: tuple[Section, ...]
    broken: tuple[Broken, ...]

    @property
    def tables(self) -> list[Table]:
        """All tables, in order."""
        return [table for section in self.sections for table in section.tables]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "title": self.title,
            "selection": self.selection,
            "runs": sum(len(arm.runs) for section in self.sections for arm in section.arms),
            "sections": [
                {"title": s.title, "tables": [t.to_dict() for t in s.tables], "notes": list(s.notes)}
                for s in self.sections
            ],
            "broken": [{"folder": str(broken.folder), "reason": broken.reason} for broken in self.broken],
        }


def build(runs: Runs, preset: Preset | None = None, selection: str = "last") -> Report:
    """Make a report of runs: of one preset, or else of every benchmark among them.

    Args:
        runs: What `find_runs` has found.
        preset: Which arms belong in, in which order, and what the paper reports.
        selection: Which weights to report on; one of `SELECTIONS`.

    Raises:
        UserError: There is nothing to report on.
    """
    if selection not in SELECTIONS:
        raise UserError(unknown_name("selection", selection, SELECTIONS))
    finished, broken = [], list(runs.broken)
    for run in runs.finished:
        if selection in (tested := run.metrics["selection"]):
            finished.append(run)
        else:
            reason = f"has no results for the selection {selection!r}; it has {', '.join(tested)}"
            broken.append(Broken(run.folder, reason))
    if not finished:
        first = f"; the first: {broken[0].folder}: {broken[0].reason}" if broken else ""
        raise UserError(f"there is no finished run to report on, and {len(broken)} unfinished or broken{first}")
    if preset is not None:
        return Report(preset.title, selection, (_of_preset(finished, preset, selection),), tuple(broken))
    benchmarks = dict.fromkeys(run.benchmark for run in finished)
    sections = [_of_benchmark([r for r in finished if r.benchmark == name], selection) for name in benchmarks]
    title = sections[0].title if len(sections) == 1 else f"{len(sections)} benchmarks"
    return Report(title, selection, tuple(sections), tuple(broken))


def _of_preset(runs: Sequence[Run], preset: Preset, selection: str) -> Section:
    arms, others = arrange(runs, preset)
    if not any(arm.runs for arm in arms):
        raise UserError(
            f"none of these {len(runs)} finished runs belongs to the preset {preset.name}; "
            "report without --preset, or run it with xcnorm sweep"
        )
    kinds = dict.fromkeys([preset.kind, "scores", "convergence"])
    section = _section(preset.name, preset.title, arms, kinds, selection, preset)
    left = [f"{len(others)} finished runs belong to no arm of this preset and are left out"] if others else []
    return replace(section, notes=(*section.notes, *left))


def _of_benchmark(runs: Sequence[Run], selection: str) -> Section:
    if any(_is_grid(run, selection) for run in runs):
        scored = any(run.metrics["selection"][selection].get("robustness") for run in runs)
        kinds = ["categories", "severity", *(["mrs"] if scored else [])]
    else:
        kinds = ["bars"] if len({run.source for run in runs}) > 1 else ["table"]
    arms = group(runs, across_sources="bars" in kinds)
    return _section(runs[0].benchmark, " / ".join(_titles(runs)), arms, [*kinds, "scores", "convergence"], selection)


def _section(
    name: str,
    title: str,
    arms: Sequence[Arm],
    kinds: Iterable[str],
    selection: str,
    preset: Preset | None = None,
) -> Section:
    runs = [run for arm in arms for run in arm.runs]
    # The paper's numbers, the preset's columns and its published rows are those of its own table, which comes first.
    shown, columns, published = (arms, (), ()) if preset is None else (arms, preset.columns, preset.published)
    means = {} if preset is None else preset.means
    tables: list[Table] = []
    drawn: list[Chart] = []
    for kind in kinds:
        content = KINDS[kind](runs, selection)
        if kind == "table" and columns:
            content = replace(content, columns=tuple(map(str, columns)))
        if kind == "table":
            content = replace(content, means=means)
        if content.columns:
            tables.append(make_table(content, shown, published))
        if content.chart is not None:
            by_column = charts.by_column(shown, content.columns, content.values)
            series = charts.losses(shown) if kind == "convergence" else by_column
            drawn += [replace(content.chart, series=series)] if series else []
        shown, columns, published = [Arm(arm.label, arm.runs) for arm in arms if arm.runs], (), ()
    tables += grids(shown, selection)
    titled = [replace(t, heading=f"{title} – {t.title}", caption=_caption(t, selection)) for t in tables]
    titles = _titles(runs)
    warnings = [f"Tested on {tested}." for tested in titles] if [title] != titles else []
    if len(titles) > 1:
        warnings.append("Not all runs were tested on the same data: compare with care.")
    warnings += dict.fromkeys(str(warning) for run in runs for warning in run.metrics["warnings"])
    return Section(name, title, tuple(arms), tuple(titled), tuple(drawn), tuple(warnings))


def _caption(table: Table, selection: str) -> str:
    counts = sorted({cell.count for row in table.rows for cell in row.cells if cell.count}) or [0]
    several = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
    seeds = f"mean ± standard deviation over {several} seeds" if counts[-1] > 1 else "one seed"
    mark = f"{ORACLE_MARK}: " if selection == "oracle" else ""
    weights = f"; {mark}{SELECTIONS[selection]}" if table.measure.averaged else ""
    return f"{table.measure.unit}; {seeds}{weights}"


def _titles(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(run.metrics["title"] for run in runs))


def _is_grid(run: Run, selection: str) -> bool:
    return any("/" in target for target in run.metrics["selection"][selection]["targets"])
