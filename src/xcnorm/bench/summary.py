"""What measurements of sides come to: ratios to the plain side, bars, fits, tables.

A result is a dictionary that JSON can hold. Its ``rows`` have a ``case``, which is a layer's shape or a network, a
``precision``, a ``side``, and what was measured; a side that did not pass its gate has no times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import correlation, fmean, linear_regression, median
from typing import Any, NamedTuple

from xcnorm.bench.sides import OURS, PLAIN
from xcnorm.bench.timing import MODES

QUANTITIES = {"inference": "inference", "forward": "forward", "backward": "backward", "both": "forward + backward"}

WIDE = 64
"""Output channels from which on no single case may stand out."""

Row = Mapping[str, Any]
Value = Callable[[Row], float | None]


class Table(NamedTuple):
    """A table of texts; the first column names the rows."""

    title: str
    header: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Bar:
    """What our layers are allowed, as multiples of the plain side; both presets are held to it.

    Attributes:
        device: Where it holds.
        quantity: One of `QUANTITIES`, or ``"memory"``.
        mode: Mode of both sides; ``"best"`` is the fastest that was measured, for each side its own.
        limits: Of the geometric mean, for ``"xcnorm"`` and ``"r_xcnorm"``.
        worst: Of each case with 64 output channels or more, likewise.
        case: What the names of its cases start with; empty for all.
    """

    device: str
    quantity: str
    mode: str
    limits: Mapping[str, float]
    worst: Mapping[str, float] | None = None
    case: str = ""


CPU_BARS = (
    Bar("cpu", "inference", "best", {"xcnorm": 1.3, "r_xcnorm": 3.0}),
    Bar("cpu", "both", "best", {"xcnorm": 1.5, "r_xcnorm": 4.0}),
    Bar("cpu", "inference", "eager", {"xcnorm": 2.6, "r_xcnorm": 6.0}),
    Bar("cpu", "both", "eager", {"xcnorm": 3.0, "r_xcnorm": 8.0}),
)
"""The same for layers and networks."""


def duration(mode: str, quantity: str) -> Value:
    """How a time is read from a row; None where there is none."""

    def read(row: Row) -> float | None:
        modes = row["times"] if mode == "best" else [mode] if mode in row["times"] else []
        times = [row["times"][name][quantity]["median"] for name in modes if quantity in row["times"][name]]
        return min(times, default=None)

    return read


def memory(row: Row) -> float | None:
    """How memory is read from a row."""
    return row["memory_mib"]


def ratios(rows: Iterable[Row], precision: str, side: str, value: Value) -> dict[str, float]:
    """By case, a value of a side as a multiple of the plain side's."""
    values = {(row["case"], row["side"]): value(row) for row in rows if row["precision"] == precision}
    pairs = {case: (values[case, PLAIN], mine) for (case, name), mine in values.items() if name == side}
    return {case: mine / plain for case, (plain, mine) in pairs.items() if mine and plain}


def geometric_mean(values: Iterable[float]) -> float:
    """Of positive numbers.

    Example:
        >>> round(geometric_mean([1, 4]), 6)
        2.0
    """
    return math.exp(fmean(map(math.log, values)))


def judge(result: Mapping[str, Any], bars: Iterable[Bar]) -> list[dict[str, Any]]:
    """Hold a result against the bars of its device, as far as it has what they ask for."""
    verdicts = []
    for bar in bars:
        # Who can tell which mode is the best must have measured all.
        modes = MODES[result["device"]] if bar.mode == "best" else (bar.mode,)
        measured = bar.quantity == "memory" or set(modes) <= set(result["modes"])
        rows = [row for row in result["rows"] if row["case"].startswith(bar.case)]
        if bar.device == result["device"] and measured and rows:
            verdicts += [
                _verdict(bar, rows, result["cases"], precision, side)
                for precision in result["precisions"]
                for side in OURS
            ]
    return verdicts


def _verdict(bar: Bar, rows: Sequence[Row], cases: Mapping[str, Any], precision: str, side: str) -> dict[str, Any]:
    layer = OURS[side]["layer"]
    found = ratios(rows, precision, side, memory if bar.quantity == "memory" else duration(bar.mode, bar.quantity))
    refused = sum(not row["times"] for row in rows if (row["precision"], row["side"]) == (precision, side))
    mean = geometric_mean(found.values()) if found else None
    verdict: dict[str, Any] = {
        "quantity": bar.quantity,
        "mode": bar.mode,
        "case": bar.case,
        "precision": precision,
        "side": side,
        "mean": mean,
        "limit": bar.limits[layer],
        "refused": refused,
        "met": mean is not None and mean <= bar.limits[layer] and not refused,
    }
    wide = {case: ratio for case, ratio in found.items() if cases[case].get("channels_out", 0) >= WIDE}
    if bar.worst and wide:
        worst = max(wide, key=lambda case: wide[case])
        verdict |= {"worst": wide[worst], "worst_case": worst, "worst_limit": bar.worst[layer]}
        verdict["met"] &= wide[worst] <= bar.worst[layer]
    return verdict


def brief(rows: Sequence[Row], precision: str, mode: str) -> str:
    """Forward and backward of our sides as multiples of the plain one, for a case."""
    found = {side: list(ratios(rows, precision, side, duration(mode, "both")).values()) for side in OURS}
    return ", ".join(f"{side} {values[0]:.2f}" if values else f"{side}: gate red" for side, values in found.items())


def fit(sizes: Sequence[float], times: Sequence[float]) -> dict[str, float]:
    """How times grow with sizes.

    Returns:
        ``slope`` of the straight line through the logarithms of both, with its ``r2``: 1 is proportional. And
        ``largest_step``, the most that time grew between neighbours for each time that the size grew.

    Example:
        >>> fit([1, 2, 4], [3, 6, 12])
        {'slope': 1.0, 'r2': 1.0, 'largest_step': 1.0}
    """
    x, y = ([math.log(value) for value in values] for values in (sizes, times))
    steps = [(times[i + 1] / times[i]) / (sizes[i + 1] / sizes[i]) for i in range(len(sizes) - 1)]
    return {
        "slope": round(linear_regression(x, y).slope, 4),
        "r2": round(correlation(x, y) ** 2, 4),
        "largest_step": round(max(steps), 4),
    }


def tables(result: Mapping[str, Any]) -> list[Table]:
    """A result as tables: every case, the means over them, growth, and the bars."""
    quantities = ("inference", "both") if result["subject"] == "models" else ("both",)
    found = []
    for precision in result["precisions"]:
        for mode in result["modes"]:
            found += [_cases(result, precision, mode, quantity) for quantity in quantities]
            found.append(_means(result, precision, mode))
    if "growth" in result:
        found.append(_growth(result["growth"]))
    return [*found, _bars(result)]


def _sides(result: Mapping[str, Any]) -> list[str]:
    """All but the plain one."""
    return [side for side in dict.fromkeys(row["side"] for row in result["rows"]) if side != PLAIN]


def _cases(result: Mapping[str, Any], precision: str, mode: str, quantity: str) -> Table:
    sides = _sides(result)
    value = duration(mode, quantity)
    rows = [row for row in result["rows"] if row["precision"] == precision]
    columns = [ratios(rows, precision, side, value) for side in sides]
    refused = {(row["case"], row["side"]) for row in rows if not row["times"]}
    lines = []
    for row in rows:
        if row["side"] == PLAIN:
            case = row["case"]
            cells = [
                "gate red" if (case, side) in refused else f"{column[case]:.2f}" if case in column else ""
                for side, column in zip(sides, columns, strict=True)
            ]
            lines.append([case, f"{value(row):.3g} ms", *cells])
    title = f"{QUANTITIES[quantity].capitalize()}, {precision}, {mode}: multiples of {PLAIN}"
    return Table(title, ["", PLAIN, *sides], lines)


def _means(result: Mapping[str, Any], precision: str, mode: str) -> Table:
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
        f"Geometric means, {precision}, {mode}: multiples of {PLAIN} "
        f"(interquartile range {100 * median(spreads):.1f} % of the median)"
    )
    return Table(title, ["", "cases", *values, "peak memory"], lines)


def _growth(growth: Sequence[Mapping[str, Any]]) -> Table:
    lines = [
        [
            f"{row['axis']}, {row['precision']}",
            row["side"],
            f"{row['sizes'][0]:,} to {row['sizes'][-1]:,}",
            f"{row['milliseconds'][0]:.3g} to {row['milliseconds'][-1]:.3g} ms",
            f"{row['slope']:.2f}",
            f"{row['r2']:.3f}",
            f"{row['largest_step']:.2f}",
        ]
        for row in growth
    ]
    header = ["", "side", "size", QUANTITIES["both"], "slope", "r2", "largest step"]
    return Table("Growth of one layer: time goes with size to the power of the slope", header, lines)


def _bars(result: Mapping[str, Any]) -> Table:
    lines: dict[str, list[str]] = {}
    for verdict in result["bars"]:
        what = QUANTITIES.get(verdict["quantity"], verdict["quantity"])
        bar = f"{verdict['case']} {what}, {verdict['precision']}, {verdict['mode']}".strip()
        refused = f", {verdict['refused']} gates red" if verdict["refused"] else ""
        lines.setdefault(bar, []).append(_against(verdict["mean"], verdict["limit"]) + refused)
        if "worst" in verdict:
            worst = f"{bar}: worst from {WIDE} channels on"
            lines.setdefault(worst, []).append(_against(verdict["worst"], verdict["worst_limit"]))
    return Table("Bars: geometric means beside what is allowed", ["", *OURS], [[bar, *lines[bar]] for bar in lines])


def _against(value: float | None, limit: float) -> str:
    if value is None:
        return "not met"
    return f"{value:.2f} of {limit:.2f}, {'met' if value <= limit else 'not met'}"
