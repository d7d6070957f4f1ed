"""Kinds: what the tables and charts of a report show of its runs, such as targets, severities or training losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean

from xcnorm.data.corruptions import CATEGORIES
from xcnorm.data.grid import SEVERITIES
from xcnorm.metrics import average, by_category, severity_means
from xcnorm.report.arms import Arm
from xcnorm.report.charts import Chart
from xcnorm.report.runs import Run
from xcnorm.report.tables import Measure, Table
from xcnorm.report.tabulate import Content, make_grid

_METRICS = {"accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "auroc": "AUROC"}
_SCORES = {**_METRICS, "calibration_error": "calibration error"}
_PROBE = "source, probed"
_QUARTERS = {"25 %": 0.25, "50 %": 0.5, "75 %": 0.75, "end": 1.0}
_SEVERITIES = tuple(map(str, SEVERITIES))


def targets(runs: Sequence[Run], selection: str) -> Content:
    """A column for each target."""

    def values(run: Run) -> dict[str, float]:
        return run.targets(selection)

    def notes(run: Run, column: str) -> Iterator[str]:
        return _target_notes(run, [column])

    columns = tuple(dict.fromkeys(target for run in runs for target in (*values(run), *run.metrics["missing"])))
    return Content("targets", _percent(runs), columns, values, notes)


def categories(runs: Sequence[Run], selection: str) -> Content:
    """A column for each category of corruptions, at severity 5."""
    members = CATEGORIES["sdg4"]

    def values(run: Run) -> dict[str, float]:
        return by_category(run.targets(selection), members, SEVERITIES[-1])

    def notes(run: Run, column: str) -> Iterator[str]:
        wanted = [f"{name}/5" for name in members[column]]
        yield from _target_notes(run, wanted)
        yield from _absent(wanted, {*run.targets(selection), *run.metrics["missing"]})

    return Content("corruptions at severity 5, by category", _percent(runs), tuple(members), values, notes)


def severities(runs: Sequence[Run], selection: str) -> Content:
    """A column for each severity, and the curves."""

    def corruptions(run: Run) -> list[str]:
        return list(dict.fromkeys(target.split("/")[0] for target in run.targets(selection) if "/" in target))

    def values(run: Run) -> dict[str, float]:
        means = severity_means(run.targets(selection), corruptions(run))
        return {str(severity): mean for severity, mean in means.items()}

    def notes(run: Run, column: str) -> Iterator[str]:
        yield f"mean over {len(corruptions(run))} corruptions"

    chart = Chart("severity", "By severity", "severity of the corruption", f"{_metric(runs)} (%)", ticks=_SEVERITIES)
    return Content("by severity", _percent(runs), _SEVERITIES, values, notes, chart)


def robustness(runs: Sequence[Run], selection: str) -> Content:
    """The Model Robustness Score by category, and its bars."""
    members = CATEGORIES["mrs5"]

    def scores(run: Run) -> Mapping[str, float]:
        return run.metrics["selection"][selection].get("robustness", {})

    def values(run: Run) -> dict[str, float]:
        return by_category(scores(run), members)

    def notes(run: Run, column: str) -> Iterator[str]:
        return _absent(members[column], scores(run))

    title, columns = "Model Robustness Score", tuple(members)
    measure = Measure("divergence in nats, lower is better", decimals=3, lower_is_better=True)
    chart = Chart("mrs", title, "", "MRS (lower is better)", bars=True, ticks=columns, decimals=3)
    return Content(title, measure, columns, values, notes, chart)


def sources(runs: Sequence[Run], selection: str) -> Content:
    """A column for each source: the mean over its targets; and the bars."""

    def values(run: Run) -> dict[str, float]:
        scores = run.targets(selection)
        return {run.source: average(scores)} if scores else {}

    columns = tuple(sorted({run.source for run in runs}, key=lambda source: (len(source), source)))  # "10" behind "9"
    title = "mean over the targets, by source"
    chart = Chart("sources", title.capitalize(), "source", f"{_metric(runs)} (%)", bars=True, ticks=columns)
    return Content(title, _percent(runs), columns, values, chart=chart)


def scores(runs: Sequence[Run], selection: str) -> Content:
    """Every score, each as the mean over the targets; and over what was probed."""

    def values(run: Run) -> dict[str, float]:
        tested = run.metrics["selection"][selection]
        known = {
            name: [100 * s[key] for s in tested["targets"].values() if s.get(key) is not None]
            for key, name in _SCORES.items()
        }
        known[_PROBE] = [100 * s[run.metrics["metric"]] for s in tested.get("probe", {}).values()]
        return {name: fmean(numbers) for name, numbers in known.items() if numbers}

    unit = "mean over the targets in percent; of the calibration error, lower is better"
    measure = Measure(unit, lower_is_better=None, averaged=False)
    probed = [_PROBE] if any("probe" in run.metrics["selection"][selection] for run in runs) else []
    return Content("all scores", measure, (*_SCORES.values(), *probed), values)


def convergence(runs: Sequence[Run], selection: str) -> Content:
    """The training loss at four moments, and its curves."""

    def values(run: Run) -> dict[str, float]:
        steps = list(run.losses)
        return {name: run.losses[steps[math.ceil(q * len(steps)) - 1]] for name, q in _QUARTERS.items() if steps}

    measure = Measure("loss after a share of the steps, lower is better", 4, lower_is_better=True, averaged=False)
    columns = tuple(_QUARTERS) if any(run.losses for run in runs) else ()
    chart = Chart("convergence", "Convergence", "training step", "training loss", logarithmic=True, decimals=4)
    return Content("convergence", measure, columns, values, chart=chart)


KINDS: dict[str, Callable[[Sequence[Run], str], Content]] = {
    "table": targets,
    "categories": categories,
    "severity": severities,
    "mrs": robustness,
    "bars": sources,
    "scores": scores,
    "convergence": convergence,
}
"""What is shown of some runs, tested on the weights of a selection."""


def grids(arms: Iterable[Arm], selection: str) -> Iterator[Table]:
    """For each arm that was tested on corruptions, every one at every severity."""
    for arm in arms:
        tested = [target for run in arm.runs for target in run.targets(selection) if "/" in target]
        rows = list(dict.fromkeys(target.rpartition("/")[0] for target in tested))
        if rows:
            title = f"{arm.label}: every corruption at every severity"
            yield make_grid(title, _percent(arm.runs), arm, rows, _SEVERITIES, lambda run: run.targets(selection))


def _metric(runs: Iterable[Run]) -> str:
    names = dict.fromkeys(run.metrics["metric"] for run in runs)
    return " or ".join(_METRICS.get(name, name) for name in names)


def _percent(runs: Iterable[Run]) -> Measure:
    return Measure(f"{_metric(runs)} in percent")


def _target_notes(run: Run, wanted: Iterable[str]) -> Iterator[str]:
    """What a run says about some of its targets, and why one is missing."""
    for target in wanted:
        if target in run.metrics["notes"]:
            yield str(run.metrics["notes"][target])
        if target in run.metrics["missing"]:
            yield f"{target} is missing: {run.metrics['missing'][target]}"


def _absent(members: Iterable[str], present: Iterable[str]) -> Iterator[str]:
    """A note where a mean is over fewer members than its name promises."""
    if lacking := [name for name in members if name not in present]:
        yield f"without {', '.join(lacking)}"
