"""The roofline of layers: their work and what they must move, beside what a device can do at best."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import torch
from matplotlib.figure import Figure

from xcnorm.bench.conditions import Conditions
from xcnorm.bench.shapes import LayerShape
from xcnorm.bench.sides import CONV
from xcnorm.bench.summary import duration
from xcnorm.bench.timing import seconds_taken
from xcnorm.ops.cpu.blockwise import multiply

_COPIED = {"cpu": 2**26, "cuda": 2**30}  # bytes, for the bandwidth
_MULTIPLIED = {"cpu": 2048, "cuda": 8192}  # rows and columns, for the matrix rate
_DRAWN = {CONV.name: ("o", "#0072b2"), "xcnorm": ("^", "#d55e00"), "r_xcnorm": ("s", "#009e73")}


def positions(shape: LayerShape) -> int:
    """Positions of all patches in a batch."""
    return shape.images * ((shape.pixels + 2 * shape.padding - shape.kernel) // shape.stride + 1) ** 2


def patch(shape: LayerShape) -> int:
    """Values in a patch."""
    return shape.channels_in * shape.kernel**2


def flop(shape: LayerShape) -> int:
    """Of the convolution's products, forward and backward."""
    return (2 if shape.first else 3) * 2 * positions(shape) * patch(shape) * shape.channels_out


def moved(shape: LayerShape) -> int:
    """Values that a convolution must move at least in forward and backward.

    Input, filters and output are read or written once each way, and so are the gradients of each.
    """
    values = shape.images * shape.channels_in * shape.pixels**2
    filters, outputs = patch(shape) * shape.channels_out, positions(shape) * shape.channels_out
    return (2 if shape.first else 3) * values + 3 * (filters + outputs)


def ceilings(conditions: Conditions) -> dict[str, float]:
    """What the device can do at best: bytes a second of a large copy, and flop a second of a large matrix product."""
    device = conditions.device
    source = torch.ones(_COPIED[device] // 4, device=device)
    target = torch.empty_like(source)
    size = _MULTIPLIED[device]
    matrix = torch.randn(size, size, device=device, dtype=conditions.dtype)
    # On a CPU torch multiplies by one library and convolves by another, which may be the faster one.
    products = [lambda: matrix @ matrix, *([lambda: multiply(matrix, matrix)] if device == "cpu" else [])]
    copying, multiplying = (
        min(seconds_taken(run, device, 3) for run in runs for _ in range(5))
        for runs in ([lambda: target.copy_(source)], products)
    )
    return {"bytes_per_second": 2 * source.nbytes / copying, "flop_per_second": 2 * size**3 / multiplying}


def draw_roofline(result: Mapping[str, Any], path: Path) -> None:
    """Draw what each layer reaches, under what the device can do.

    A layer's place along x is the work of its products over the bytes that a convolution must move at least; the roof
    is the measured rate of a copy, then of a matrix product.

    Args:
        result: What `benchmarks.layers` measured.
        path: The file to write; its ending says how.
    """
    settings: Any = {"svg.hashsalt": path.name, "axes.spines.top": False, "axes.spines.right": False, "font.size": 10}
    with mpl.rc_context(settings):
        precisions = result["precisions"]
        figure = Figure(figsize=(5.2 * len(precisions), 4.2), layout="constrained")
        for axes, precision in zip(figure.subplots(1, len(precisions), squeeze=False)[0], precisions, strict=True):
            _panel(axes, result, precision)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=150)


def _panel(axes: Any, result: Mapping[str, Any], precision: str) -> None:
    ceilings, mode = result["ceilings"][precision], result["modes"][0]
    unit, letter = (1e12, "T") if ceilings["flop_per_second"] > 1e12 else (1e9, "G")
    itemsize = Conditions(result["device"], precision).dtype.itemsize
    flop, moved = ({name: case[key] for name, case in result["cases"].items()} for key in ("flop", "moved"))
    places = {name: flop[name] / (moved[name] * itemsize) for name in flop}
    ridge = ceilings["flop_per_second"] / ceilings["bytes_per_second"]
    ends = min(*places.values(), ridge) / 1.5, max(*places.values(), ridge) * 1.5
    roof = [
        min(ceilings["bytes_per_second"] * x, ceilings["flop_per_second"]) / unit for x in (ends[0], ridge, ends[1])
    ]
    axes.plot([ends[0], ridge, ends[1]], roof, color="#1f2328", linewidth=1.2, label="copy and matrix product")
    for side, (marker, colour) in _DRAWN.items():
        times = {
            row["case"]: time
            for row in result["rows"]
            if (row["precision"], row["side"]) == (precision, side) and (time := duration(mode, "both")(row))
        }
        rates = [flop[case] / (time / 1e3) / unit for case, time in times.items()]
        axes.plot(
            [places[case] for case in times],
            rates,
            marker,
            color=colour,
            markersize=5,
            alpha=0.8,
            label=side,
        )
    axes.set(xscale="log", yscale="log", title=f"{precision}, {mode}: forward + backward of each layer")
    axes.set(xlabel="flop / byte that must be moved", ylabel=f"{letter}flop/s")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
    axes.grid(color="#dfe3e8", linewidth=0.6)
