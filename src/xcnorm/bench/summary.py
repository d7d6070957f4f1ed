"""Summaries of comparisons: our sides as multiples of torch's own layers, case by case and in the mean.

A result is a dictionary that JSON can hold. Its ``rows`` have a ``case``, which is a layer's shape or a network, a
``precision``, a ``side``, and what was measured; a side that did not pass its gate has no times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import geometric_mean, median
from typing import Any, NamedTuple

from xcnorm.bench.sides import CONV, OURS

QUANTITIES = {"inference": "inference", "forward": "forward", "backward": "backward", "both": "forward + backward"}

Measurement = Mapping[str, Any]
Value = Callable[[Measurement], float | None]


class TextTable(NamedTuple):
    """A table of texts; the first column names the rows."""

    title: str
    header: list[str]
    rows: list[list[str]]


def duration(mode: str, quantity: str) -> Value:
    """How a time is read from a row; None where there is none. Mode ``"best"`` is the fastest of each row."""

    def read(row: Measurement) -> float | None:
        modes = row["times"] if mode == "best" else [mode] if mode in row["times"] else []
        times = [row["times"][name][quantity]["median"] for name in modes if quantity in row["times"][name]]
        return min(times, default=None)

    return read


def memory(row: Measurement) -> float | None:
    """How memory is read from a row."""
    return row["memory_mib"]


def ratios(rows: Iterable[Measurement], precision: str, side: str, value: Value) -> dict[str, float]:
    """By case, a value of a side as a multiple of that of torch's own layers."""
    values = {(row["case"], row["side"]): value(row) for row in rows if row["precision"] == precision}
    pairs = {case: (values[case, CONV.name], mine) for (case, name), mine in values.items() if name == side}
    return {case: mine / theirs for case, (theirs, mine) in pairs.items() if mine and theirs}


def brief(rows: Sequence[Measurement], precision: str, mode: str) -> str:
    """Forward and backward of our sides in one line, for a case."""
    found = {side.name: list(ratios(rows, precision, side.name, duration(mode, "both")).values()) for side in OURS}
    return ", ".join(f"{side} {values[0]:.2f}" if values else f"{side}: gate red" for side, values in found.items())


def tables(result: Mapping[str, Any]) -> list[TextTable]:
    """A result as tables: every case, and the means over them."""
    quantities = ("inference", "both") if result["subject"] == "models" else ("both",)
    found = []
    for precision in result["precisions"]:
        for mode in result["modes"]:
            found += [_cases(result, precision, mode, quantity) for quantity in quantities]
            found.append(_means(result, precision, mode))
    return found


def _sides(result: Mapping[str, Any]) -> list[str]:
    """All but torch's own layers."""
    return [side for side in dict.fromkeys(row["side"] for row in result["rows"]) if side != CONV.name]


def _cases(result: Mapping[str, Any], precision: str, mode: str, quantity: str) -> TextTable:
    sides, value = _sides(result), duration(mode, quantity)
    rows = [row for row in result["rows"] if row["precision"] == precision]
    columns = {side: ratios(rows, precision, side, value) for side in sides}
    refused = {(row["case"], row["side"]) for row in rows if not row["times"]}

    def cell(case: str, side: str) -> str:
        if (case, side) in refused:
            return "gate red"
        return f"{columns[side][case]:.2f}" if case in columns[side] else ""

    lines = [
        [row["case"], f"{value(row):.3g} ms", *(cell(row["case"], side) for side in sides)]
        for row in rows
        if row["side"] == CONV.name
    ]
    title = f"{QUANTITIES[quantity].capitalize()}, {precision}, {mode}: multiples of {CONV.name}"
    return TextTable(title, ["", CONV.name, *sides], lines)


def _means(result: Mapping[str, Any], precision: str, mode: str) -> TextTable:
    values: dict[str, Value] = {title: duration(mode, quantity) for quantity, title in QUANTITIES.items()}
    lines = []
    for side in _sides(result):
        found = [ratios(result["rows"], precision, side, value) for value in [*values.values(), memory]]
        cells = [f"{geometric_mean(column.values()):.2f}" if column else "" for column in found]
        lines.append([side, str(max(map(len, found))), *cells])
    spreads = [
        (times["both"]["high"] - times["both"]["low"]) / times["both"]["median"]
        for row in result["rows"]
        if row["precision"] == precision and (times := row["times"].get(mode))
    ]
    title = (
        f"Geometric means, {precision}, {mode}: multiples of {CONV.name} "
        f"(interquartile range {100 * median(spreads):.1f} % of the median)"
    )
    return TextTable(title, ["", "cases", *values, "peak memory"], lines)
