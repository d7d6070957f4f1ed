"""Charts: curves and bars as plain numbers; `xcnorm.report.figures` draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch

from xcnorm.functional import sharpen, welsch
from xcnorm.report.arms import Arm, Values

_POINTS = 400  # of a curve; a screen has no more to show them on


@dataclass(frozen=True)
class Series:
    """One curve, or the bars of one colour.

    Attributes:
        name: Its name in the legend.
        x: Where its points are; for bars, the position of the group.
        y: How high they are.
        low: The lowest over seeds; as `y` where there is one seed.
        high: The highest over seeds.
        colour: The number of its colour; an arm has the same one in all charts.
        dashed: Whether it is somebody else's, such as the paper's.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    colour: int = 0
    dashed: bool = False


@dataclass(frozen=True)
class Chart:
    """A chart.

    Attributes:
        name: The name of its files.
        title: Its heading.
        x_label: What runs along.
        y_label: What runs upwards.
        series: Its curves or bars.
        bars: Whether these are bars.
        ticks: The names of the positions 0, 1, ... along x; empty where x is a number.
        logarithmic: Whether y is.
        decimals: How many digits values are shown with.
    """

    name: str
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...] = ()
    bars: bool = False
    ticks: tuple[str, ...] = ()
    logarithmic: bool = False
    decimals: int = 2

    @property
    def places(self) -> list[float]:
        """Where along x it has values, from left to right."""
        return sorted({x for series in self.series for x in series.x})


def by_column(arms: Sequence[Arm], columns: Sequence[str], values: Values) -> tuple[Series, ...]:
    """A series for each arm with a point at each column it has: the mean over seeds, from the lowest to the highest.

    The paper's numbers make series of their own.
    """
    made: list[Series] = []
    for colour, arm in enumerate(arms):
        by_seed = arm.by_seed(values).values()
        points = {i: [seed[column] for seed in by_seed if column in seed] for i, column in enumerate(columns)}
        paper = {i: [arm.paper[column]] for i, column in enumerate(columns) if column in arm.paper}
        made += _series(arm.label, points, colour)
        made += _series(f"{arm.label} (paper)", paper, colour, dashed=True)
    return tuple(made)


def losses(arms: Sequence[Arm]) -> tuple[Series, ...]:
    """A curve for each arm: the mean training loss at steps that all its runs have logged, 400 of them at most."""
    made: list[Series] = []
    for colour, arm in enumerate(arms):
        logs = [run.losses for run in arm.runs if run.losses]
        steps = sorted(set.intersection(*(set(log) for log in logs))) if logs else []
        # The axis is logarithmic, and a loss of zero or less has no place on it.
        steps = [step for step in steps if all(log[step] > 0 for log in logs)]
        steps = steps[:: -(-len(steps) // _POINTS) or 1]
        made += _series(arm.label, {step: [log[step] for log in logs] for step in steps}, colour)
    return tuple(made)


def functions() -> tuple[Chart, Chart]:
    """The paper's figure 2: the Welsch function for several c, and sharpening for several tau."""
    z, similarity = (torch.linspace(-end, end, 201, dtype=torch.float64) for end in (5, 1))
    outliers = [_function(f"c = {c:g}", z, welsch(z, c), i) for i, c in enumerate((0.5, 1.0, 2.0, 3.0))]
    positive = similarity.relu()
    powers = [_function(f"τ = {t:g}", similarity, sharpen(positive, t), i) for i, t in enumerate((0.5, 1.0, 2.0, 4.0))]
    return (
        Chart("welsch", "The Welsch function for several c", "z", "φ(z)", sum(outliers, ())),
        Chart("sharpening", "Sharpening for several τ", "similarity", "sharpened", sum(powers, ())),
    )


def _function(name: str, x: torch.Tensor, y: torch.Tensor, colour: int) -> tuple[Series, ...]:
    return _series(name, {a: [b] for a, b in zip(x.tolist(), y.tolist(), strict=True)}, colour)


def _series(name: str, points: Mapping[Any, Sequence[float]], colour: int, dashed: bool = False) -> tuple[Series, ...]:
    """One series through the means of the numbers at each place, or none where there are no numbers."""
    known = {x: numbers for x, numbers in points.items() if numbers}
    if not known:
        return ()
    y, low, high = zip(*((fmean(numbers), min(numbers), max(numbers)) for numbers in known.values()), strict=True)
    return (Series(name, tuple(known), y, low, high, colour, dashed),)
