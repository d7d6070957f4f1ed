"""From runs to a report: which tables and charts there are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from xcnorm.data.corruptions import CATEGORIES
from xcnorm.data.grid import SEVERITIES
from xcnorm.errors import UserError, unknown_name
from xcnorm.metrics import average, by_category, severity_means
from xcnorm.report import charts
from xcnorm.report.arms import Arm, arrange, group
from xcnorm.report.charts import Chart
from xcnorm.report.runs import Broken, Run, Runs
from xcnorm.report.tables import Look, Table, make_grid, make_table

if TYPE_CHECKING:
    from xcnorm.engine.presets import Preset

SELECTIONS = {
    "last": "the weights after the last step",
    "best_on_source": "the weights that did best on the source's validation images",
    "oracle": "the weights that did best on the targets themselves",
}
ORACLE_MARK = "diagnostic, not a result"
ORACLE = (
    "These weights were chosen by looking at the targets. That is a diagnostic of what a better choice could gain, "
    "not a result: nobody who has to choose weights knows the targets."
)

_METRICS = {"accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "auroc": "AUROC"}
_QUARTERS = {"25 %": 0.25, "50 %": 0.5, "75 %": 0.75, "end": 1.0}


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
    finished = [run for run in runs.finished if selection in run.metrics["selection"]]
    untested = [
        Broken(
            run.folder, f"has no results for the selection {selection!r}; it has {', '.join(run.metrics['selection'])}"
        )
        for run in runs.finished
        if selection not in run.metrics["selection"]
    ]
    broken = (*runs.broken, *untested)
    if not finished:
        first = f"; the first: {broken[0].folder}: {broken[0].reason}" if broken else ""
        raise UserError(f"there is no finished run to report on, and {len(broken)} unfinished or broken{first}")
    if preset is not None:
        return Report(preset.title, selection, (_of_preset(finished, preset, selection),), broken)
    benchmarks = dict.fromkeys(run.benchmark for run in finished)
    sections = [_of_benchmark([r for r in finished if r.benchmark == name], selection) for name in benchmarks]
    title = sections[0].title if len(sections) == 1 else f"{len(sections)} benchmarks"
    return Report(title, selection, tuple(sections), broken)


def _of_preset(runs: Sequence[Run], preset: Preset, selection: str) -> Section:
    arms, others = arrange(runs, preset)
    if not any(arm.runs for arm in arms):
        raise UserError(
            f"none of these {len(runs)} finished runs belongs to the preset {preset.name}; "
            "report without --preset, or run it with xcnorm sweep"
        )
    kinds = dict.fromkeys([preset.kind, "scores", "convergence"])
    notes = [f"{len(others)} finished runs belong to no arm of this preset and are left out"] if others else []
    return _section(preset.name, preset.title, arms, kinds, selection, notes, preset.columns, preset.published)


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
    notes: Iterable[str] = (),
    columns: Sequence[str] = (),
    published: Sequence[Mapping[str, Any]] = (),
) -> Section:
    runs = [run for arm in arms for run in arm.runs]
    # The paper's numbers, the preset's columns and its published rows are those of its own table, which comes first.
    ask = _Ask(arms, selection, tuple(map(str, columns)), published)
    rest = _Ask([Arm(arm.label, arm.runs) for arm in arms if arm.runs], selection)
    tables: list[Table] = []
    drawn: list[Chart] = []
    for kind in kinds:
        table, chart = _KINDS[kind](ask)
        ask = rest
        if table.columns:
            tables.append(replace(table, heading=f"{title} – {table.title}", caption=_caption(table, selection)))
        if chart is not None and chart.series:
            drawn.append(chart)
    tables += [
        replace(table, heading=f"{title} – {table.title}", caption=_caption(table, selection)) for table in _grids(rest)
    ]
    titles = _titles(runs)
    said = [f"Tested on {tested}." for tested in titles] if [title] != titles else []
    if len(titles) > 1:
        said.append("Not all runs were tested on the same data: compare with care.")
    said += dict.fromkeys(str(warning) for run in runs for warning in run.metrics["warnings"])
    return Section(name, title, tuple(arms), tuple(tables), tuple(drawn), (*said, *notes))


def _caption(table: Table, selection: str) -> str:
    counts = sorted({cell.count for row in table.rows for cell in row.cells if cell.count}) or [0]
    several = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
    seeds = f"mean ± standard deviation over {several} seeds" if counts[-1] > 1 else "one seed"
    mark = f"{ORACLE_MARK}: " if selection == "oracle" else ""
    weights = f"; {mark}{SELECTIONS[selection]}" if table.look.tested else ""
    return f"{table.look.unit}; {seeds}{weights}"


def _titles(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(run.metrics["title"] for run in runs))


def _is_grid(run: Run, selection: str) -> bool:
    return any("/" in target for target in run.metrics["selection"][selection]["targets"])


@dataclass(frozen=True)
class _Ask:
    """What a table and a chart are to be made of."""

    arms: Sequence[Arm]
    selection: str
    columns: tuple[str, ...] = ()
    published: Sequence[Mapping[str, Any]] = ()

    @property
    def runs(self) -> list[Run]:
        return [run for arm in self.arms for run in arm.runs]

    @property
    def metric(self) -> str:
        names = dict.fromkeys(run.metrics["metric"] for run in self.runs)
        return " or ".join(_METRICS.get(name, name) for name in names)


_Made = tuple[Table, Chart | None]


def _targets(ask: _Ask) -> _Made:
    """A column for each target."""

    def values(run: Run) -> dict[str, float]:
        return run.targets(ask.selection)

    def notes(run: Run, column: str) -> Iterator[str]:
        return _target_notes(run, [column])

    named = dict.fromkeys(target for run in ask.runs for target in (*values(run), *run.metrics["missing"]))
    columns = ask.columns or tuple(named)
    look = Look(f"{ask.metric} in percent")
    return make_table("targets", look, ask.arms, columns, values, notes, ask.published), None


def _categories(ask: _Ask) -> _Made:
    """A column for each category of corruptions, at severity 5."""
    categories = CATEGORIES["sdg4"]

    def values(run: Run) -> dict[str, float]:
        worst = {name.removesuffix("/5"): v for name, v in run.targets(ask.selection).items() if name.endswith("/5")}
        return by_category(worst, categories)

    def notes(run: Run, column: str) -> Iterator[str]:
        targets = [f"{name}/5" for name in categories[column]]
        yield from _target_notes(run, targets)
        yield from _absent(targets, {*run.targets(ask.selection), *run.metrics["missing"]})

    look = Look(f"{ask.metric} in percent")
    title = "corruptions at severity 5, by category"
    return make_table(title, look, ask.arms, tuple(categories), values, notes, ask.published), None


def _severities(ask: _Ask) -> _Made:
    """A column for each severity, and the curves."""

    def corruptions(run: Run) -> list[str]:
        return list(dict.fromkeys(t.split("/")[0] for t in run.targets(ask.selection) if "/" in t))

    def values(run: Run) -> dict[str, float]:
        means = severity_means(run.targets(ask.selection), corruptions(run))
        return {str(severity): mean for severity, mean in means.items()}

    def notes(run: Run, column: str) -> Iterator[str]:
        yield f"mean over {len(corruptions(run))} corruptions"

    columns = tuple(str(severity) for severity in SEVERITIES)
    series = charts.by_column(ask.arms, columns, values)
    chart = Chart("severity", "By severity", "severity of the corruption", f"{ask.metric} (%)", series, ticks=columns)
    look = Look(f"{ask.metric} in percent")
    return make_table("by severity", look, ask.arms, columns, values, notes, ask.published), chart


def _robustness(ask: _Ask) -> _Made:
    """The Model Robustness Score by category, and its bars."""
    categories = CATEGORIES["mrs5"]

    def scores(run: Run) -> Mapping[str, float]:
        return run.metrics["selection"][ask.selection].get("robustness", {})

    def values(run: Run) -> dict[str, float]:
        return by_category(scores(run), categories)

    def notes(run: Run, column: str) -> Iterator[str]:
        return _absent(categories[column], scores(run))

    columns = tuple(categories)
    title = "Model Robustness Score"
    look = Look("divergence in nats, lower is better", decimals=3, lower_is_better=True)
    series = charts.by_column(ask.arms, columns, values)
    chart = Chart("mrs", title, "", "MRS (lower is better)", series, bars=True, ticks=columns, decimals=3)
    return make_table(title, look, ask.arms, columns, values, notes, ask.published), chart


def _sources(ask: _Ask) -> _Made:
    """A column for each source: the mean over its targets; and the bars."""

    def values(run: Run) -> dict[str, float]:
        targets = run.targets(ask.selection)
        return {run.source: average(targets)} if targets else {}

    found = {run.source for run in ask.runs}
    columns = tuple(sorted(found, key=lambda source: (len(source), source)))  # "10" behind "9"
    title = "mean over the targets, by source"
    series = charts.by_column(ask.arms, columns, values)
    chart = Chart("sources", title.capitalize(), "source", f"{ask.metric} (%)", series, bars=True, ticks=columns)
    look = Look(f"{ask.metric} in percent")
    return make_table(title, look, ask.arms, columns, values, published=ask.published), chart


def _grids(ask: _Ask) -> Iterator[Table]:
    """For each arm that was tested on corruptions, every one at every severity."""
    columns = tuple(str(severity) for severity in SEVERITIES)
    for arm in ask.arms:
        targets = [target for run in arm.runs for target in run.targets(ask.selection) if "/" in target]
        rows = list(dict.fromkeys(target.rpartition("/")[0] for target in targets))
        if rows:
            title = f"{arm.label}: every corruption at every severity"
            look = Look(f"{ask.metric} in percent")
            yield make_grid(title, look, arm, rows, columns, lambda run: run.targets(ask.selection))


def _scores(ask: _Ask) -> _Made:
    """Every score, each as the mean over the targets."""
    columns = {"accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "auroc": "AUROC"}
    columns["calibration_error"] = "calibration error"

    def values(run: Run) -> dict[str, float]:
        found = {}
        targets = run.metrics["selection"][ask.selection]["targets"]
        for key, column in columns.items():
            known = {name: 100 * numbers[key] for name, numbers in targets.items() if numbers.get(key) is not None}
            if known:
                found[column] = average(known)
        return found

    look = Look("mean over the targets in percent; of the calibration error, lower is better", tested=False)
    table = make_table("all scores", look, ask.arms, tuple(columns.values()), values)
    # What is best differs from column to column, so none is marked.
    rows = [replace(row, cells=tuple(replace(cell, rank=0) for cell in row.cells)) for row in table.rows]
    return replace(table, rows=tuple(rows)), None


def _convergence(ask: _Ask) -> _Made:
    """The training loss at four moments, and its curves."""

    def values(run: Run) -> dict[str, float]:
        steps = list(run.losses)
        at = {name: steps[math.ceil(share * len(steps)) - 1] for name, share in _QUARTERS.items() if steps}
        return {name: run.losses[step] for name, step in at.items()}

    look = Look("loss after a share of the steps, lower is better", 4, lower_is_better=True, tested=False)
    columns = tuple(_QUARTERS) if any(run.losses for run in ask.runs) else ()
    series = charts.losses(ask.arms)
    chart = Chart("convergence", "Convergence", "training step", "training loss", series, logarithmic=True, decimals=4)
    return make_table("convergence", look, ask.arms, columns, values, published=ask.published), chart


def _target_notes(run: Run, targets: Iterable[str]) -> Iterator[str]:
    """What a run says about its targets, and why one is missing."""
    for target in targets:
        if target in run.metrics["notes"]:
            yield str(run.metrics["notes"][target])
        if target in run.metrics["missing"]:
            yield f"{target} is missing: {run.metrics['missing'][target]}"


def _absent(members: Iterable[str], present: Iterable[str]) -> Iterator[str]:
    """A note where a mean is over fewer members than its name promises."""
    if lacking := [name for name in members if name not in present]:
        yield f"without {', '.join(lacking)}"


_KINDS: dict[str, Callable[[_Ask], _Made]] = {
    "table": _targets,
    "categories": _categories,
    "severity": _severities,
    "mrs": _robustness,
    "bars": _sources,
    "scores": _scores,
    "convergence": _convergence,
}
