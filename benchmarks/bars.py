"""Bars: what we allow our layers and networks to cost, as multiples of torch's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

from xcnorm.bench.sides import OURS, Side
from xcnorm.bench.summary import QUANTITIES, Measurement, TextTable, duration, memory, ratios
from xcnorm.bench.timing import MODES

WIDE = 64
"""Output channels from which on no single case may stand out."""


@dataclass(frozen=True)
class Bar:
    """What our layers are allowed; both presets are held to it.

    Args:
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


ON_CPU = (
    Bar("cpu", "inference", "best", {"xcnorm": 1.3, "r_xcnorm": 3.0}),
    Bar("cpu", "both", "best", {"xcnorm": 1.5, "r_xcnorm": 4.0}),
    Bar("cpu", "inference", "eager", {"xcnorm": 2.6, "r_xcnorm": 6.0}),
    Bar("cpu", "both", "eager", {"xcnorm": 3.0, "r_xcnorm": 8.0}),
)
BARS = {
    "layers": (
        Bar("cuda", "both", "graph", {"xcnorm": 1.25, "r_xcnorm": 1.8}, worst={"xcnorm": 1.6, "r_xcnorm": 2.5}),
        Bar("cuda", "memory", "eager", {"xcnorm": 1.2, "r_xcnorm": 1.2}),
        *ON_CPU,
    ),
    "models": (Bar("cuda", "both", "graph", {"xcnorm": 1.3, "r_xcnorm": 2.0}, case="wrn16_4"), *ON_CPU),
}


def verdicts(result: Mapping[str, Any], bars: Iterable[Bar]) -> list[dict[str, Any]]:
    """Hold a result against the bars of its device, as far as it has what they ask for."""
    found = []
    for bar in bars:
        # Who can tell which mode is the best must have measured all.
        modes = MODES[result["device"]] if bar.mode == "best" else (bar.mode,)
        measured = bar.quantity == "memory" or set(modes) <= set(result["modes"])
        rows = [row for row in result["rows"] if row["case"].startswith(bar.case)]
        if bar.device == result["device"] and measured and rows:
            found += [
                _verdict(bar, rows, result["cases"], precision, side)
                for precision in result["precisions"]
                for side in OURS
            ]
    return found


def _verdict(
    bar: Bar, rows: Sequence[Measurement], cases: Mapping[str, Any], precision: str, side: Side
) -> dict[str, Any]:
    value = memory if bar.quantity == "memory" else duration(bar.mode, bar.quantity)
    found = ratios(rows, precision, side.name, value)
    refused = sum(not row["times"] for row in rows if (row["precision"], row["side"]) == (precision, side.name))
    mean, limit = geometric_mean(found.values()) if found else None, bar.limits[side.layer]
    verdict: dict[str, Any] = {
        "quantity": bar.quantity,
        "mode": bar.mode,
        "case": bar.case,
        "precision": precision,
        "side": side.name,
        "mean": mean,
        "limit": limit,
        "refused": refused,
        "met": mean is not None and mean <= limit and not refused,
    }
    wide = {case: ratio for case, ratio in found.items() if cases[case].get("channels_out", 0) >= WIDE}
    if bar.worst and wide:
        worst = max(wide, key=lambda case: wide[case])
        verdict |= {"worst": wide[worst], "worst_case": worst, "worst_limit": bar.worst[side.layer]}
        verdict["met"] &= wide[worst] <= bar.worst[side.layer]
    return verdict


def bars_table(found: Iterable[Mapping[str, Any]]) -> TextTable:
    """Verdicts as a table: a row for each bar, a column for each of our sides."""
    lines: dict[str, list[str]] = {}
    for verdict in found:
        what = QUANTITIES.get(verdict["quantity"], verdict["quantity"])
        bar = f"{verdict['case']} {what}, {verdict['precision']}, {verdict['mode']}".strip()
        refused = f", {verdict['refused']} gates red" if verdict["refused"] else ""
        lines.setdefault(bar, []).append(_against(verdict["mean"], verdict["limit"]) + refused)
        if "worst" in verdict:
            worst = f"{bar}: worst from {WIDE} channels on"
            lines.setdefault(worst, []).append(_against(verdict["worst"], verdict["worst_limit"]))
    header = ["", *(side.name for side in OURS)]
    return TextTable("Bars: geometric means beside what is allowed", header, [[bar, *lines[bar]] for bar in lines])


def _against(value: float | None, limit: float) -> str:
    if value is None:
        return "not met"
    return f"{value:.2f} of {limit:.2f}, {'met' if value <= limit else 'not met'}"
