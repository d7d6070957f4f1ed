"""Means over targets: the numbers of the tables.

Targets of a corruption grid are named ``"<corruption>/<severity>"``, such as ``"fog/5"``. A corruption that is not
there is left out of every mean, so look at which targets are missing before comparing with a table that has them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from xcnorm.errors import UserError

_SEVERITIES = (1, 2, 3, 4, 5)


def average(values: Mapping[str, float]) -> float:
    """The plain mean over targets.

    Args:
        values: A number for each target.

    Raises:
        UserError: There are no targets.
    """
    if not values:
        raise UserError("there is nothing to average: no target has a value; evaluate at least one")
    return fmean(values.values())


def by_category(
    values: Mapping[str, float], categories: Mapping[str, Sequence[str]], severity: int | None = None
) -> dict[str, float]:
    """The mean of each category's members.

    Args:
        values: A number for each corruption; with a severity, for each target.
        categories: The corruptions of each category, such as ``xcnorm.data.corruptions.CATEGORIES["mrs5"]``.
        severity: Which severity; the published tables have 5.

    Returns:
        A number for each category: the mean over those of its members that have one. A category none of whose members
        has one is left out.

    Example:
        >>> by_category({"fog": 1.0, "snow": 2.0}, {"weather": ["fog", "snow", "frost"], "noise": ["shot_noise"]})
        {'weather': 1.5}
        >>> by_category({"fog/5": 0.5, "snow/5": 0.25, "fog/1": 0.75}, {"weather": ["fog", "snow"]}, severity=5)
        {'weather': 0.375}
    """
    if severity is not None:
        values = _at(values, (name for members in categories.values() for name in members), severity)
    present = {name: [values[m] for m in members if m in values] for name, members in categories.items()}
    return {name: fmean(numbers) for name, numbers in present.items() if numbers}


def severity_means(values: Mapping[str, float], names: Iterable[str]) -> dict[int, float]:
    """The mean over corruptions at each severity that has any.

    Args:
        values: A number for each target.
        names: The corruptions to take the mean of.

    Example:
        >>> severity_means({"fog/1": 0.75, "fog/2": 0.5, "snow/1": 0.25, "snow/2": 0.25}, ["fog", "snow"])
        {1: 0.5, 2: 0.375}
    """
    names = list(names)
    grid = {severity: _at(values, names, severity) for severity in _SEVERITIES}
    return {severity: fmean(present.values()) for severity, present in grid.items() if present}


def _at(values: Mapping[str, float], names: Iterable[str], severity: int) -> dict[str, float]:
    """The values of one severity, by corruption, as far as they are there."""
    return {name: values[target] for name in names if (target := f"{name}/{severity}") in values}
