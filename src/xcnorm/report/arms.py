"""Arms: the runs of one experiment over its seeds, which become one row of a table or one curve."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from xcnorm.report.runs import NO_RESULT, Run, flatten, settings_key

if TYPE_CHECKING:
    from xcnorm.engine.presets import Preset

Values = Callable[[Run], Mapping[str, float]]
"""The numbers of a run by column."""

_NO_PART = ("seed", *NO_RESULT)  # what may differ within an arm
_HOW = ("run.channels_last", "run.compile", "run.graph")  # how it was computed is no part of what an arm asks for


@dataclass(frozen=True)
class Arm:
    """Runs that differ only in their seed (and, where sources are compared, in their source).

    Attributes:
        label: Its name in tables and figures.
        runs: Its runs, by seed; empty for an arm of a preset that was not run yet.
        paper: What the paper reports, by column, in the table's unit.
    """

    label: str
    runs: tuple[Run, ...]
    paper: Mapping[str, float] = field(default_factory=dict)

    def by_seed(self, values: Values) -> dict[int, dict[str, float]]:
        """The values of its columns for each seed; the runs of a seed on several sources are put together."""
        found: dict[int, dict[str, float]] = {}
        for run in self.runs:
            found.setdefault(run.seed, {}).update(values(run))
        return found


def group(runs: Sequence[Run], *, across_sources: bool = False) -> list[Arm]:
    """Gather runs into arms, in the order in which they come.

    Arms that carry the same label are told apart by the settings in which they differ.

    Args:
        runs: The runs of one benchmark.
        across_sources: Whether runs on different sources belong together.
    """
    ignored = (*_NO_PART, "benchmark_options.source") if across_sources else _NO_PART
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.key(ignored), []).append(run)
    labels = {key: _label(members[0]) for key, members in groups.items()}
    return [
        Arm(
            _distinct(key, [rival for rival in groups if labels[rival] == labels[key]], labels[key]),
            tuple(sorted(members, key=lambda run: (run.seed, run.source))),
        )
        for key, members in groups.items()
    ]


def arrange(runs: Sequence[Run], preset: Preset) -> tuple[list[Arm], list[Run]]:
    """Gather runs into the arms of a preset, in its order and with its numbers.

    A run belongs to an arm when it is its experiment, or carries its label on the preset's benchmark: a sweep whose
    settings were changed on the command line still makes the preset's table. Where that gives an arm several
    experiments, each has its own row.

    Returns:
        The arms of the preset, those without runs included, and the runs that belong to none.
    """
    benchmarks = {experiment.benchmark for experiment in preset.experiments()}
    exact = asked_for(runs, preset)
    labels = {run.folder: exact.get(run.folder, _label(run)) for run in runs if run.benchmark in benchmarks}
    papers: dict[str, dict[str, float]] = {}
    for wanted in preset.arms:  # an arm that runs on several sources is listed once for each of them
        papers.setdefault(wanted.label, {}).update(wanted.paper)
    arms: list[Arm] = []
    for label, paper in papers.items():
        members = [run for run in runs if labels.get(run.folder) == label]
        found = group(members, across_sources=preset.kind == "bars")
        for arm in found or [Arm(label, ())]:
            own = label if len(found) < 2 else label + arm.label.removeprefix(_label(arm.runs[0]))
            arms.append(Arm(own, arm.runs, paper))
    return arms, [run for run in runs if labels.get(run.folder) not in papers]


def asked_for(runs: Sequence[Run], preset: Preset) -> dict[Path, str]:
    """The runs that are experiments of a preset, with nothing changed: by their folder, the label of the arm."""
    ignored = (*_NO_PART, *_HOW)
    keys = {settings_key(dict(flatten(e.model_dump(mode="json"))), ignored): e.label for e in preset.experiments()}
    return {run.folder: keys[key] for run in runs if (key := run.key(ignored)) in keys}


def _label(run: Run) -> str:
    method = run.config["method"]
    parts = [method["name"], method.get("augment", "none"), run.config["model"]["layer"]]
    return str(run.config.get("label") or "+".join(part for part in parts if part != "none"))


def _distinct(key: str, rivals: Sequence[str], label: str) -> str:
    """The label, with those settings behind it that tell it apart from others of the same label."""
    own, others = json.loads(key), [json.loads(rival) for rival in rivals]
    differing = [name for name in own if any(other.get(name) != own[name] for other in others)]
    return f"{label} ({', '.join(f'{name}={own[name]}' for name in differing)})" if differing else label
