"""Layers for docs/performance.md: what `xcnorm bench layers` measures, and more beside it.

    python -m benchmarks.layers --device cuda --out benchmarks/results/layers_h200.json

In the shapes of two networks there are further sides: our backends that run everywhere, a weight-standardised
convolution, and the B-cos convolution where its package is installed. What the device can do at best is measured too,
and how the cost of one layer grows with its size.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from statistics import correlation, linear_regression
from typing import Any

from torch import nn

from benchmarks.results_file import add_options, write
from benchmarks.roofline import ceilings, flop, moved, patch, positions
from xcnorm.bench.ahead import compile_ahead
from xcnorm.bench.compare import Case, compare
from xcnorm.bench.conditions import PRECISIONS, Conditions
from xcnorm.bench.layers import as_case
from xcnorm.bench.shapes import NETWORKS, QUICK, LayerShape, shapes_of
from xcnorm.bench.sides import SIDES, Side, make
from xcnorm.bench.timing import MODES, make_steps, take_turns

BACKENDS = (
    Side("r_xcnorm plain", "r_xcnorm", backend="plain"),
    Side("r_xcnorm reference", "r_xcnorm", backend="reference"),
)
WEIGHT_STANDARDISED, B_COS = Side("weight-standardised conv", "weight_standardised"), Side("b-cos conv", "conv")

GROWN = {"cpu": LayerShape(4, 64, 64, 32, 3, padding=1), "cuda": LayerShape(128, 64, 64, 32, 3, padding=1)}
GROWN_SIDES = tuple(side for side in SIDES if side.preset is None)

_UNFOLDED = {"cpu": 2**28, "cuda": 2**32}  # bytes of all patches; the reference holds some six times as many at once


@cache
def has_bcos() -> bool:
    """Whether the package of the B-cos convolution is installed, and can be imported here."""
    try:
        import_module("bcos.modules")
    except ImportError:  # of it, or of something that it needs and does not declare
        return False
    return True


def more_sides(shape: LayerShape, device: str) -> list[Side]:
    """Further sides for a shape, as far as they are installed and fit into memory."""
    fits = 4 * positions(shape) * patch(shape) <= _UNFOLDED[device]
    backends = [side for side in BACKENDS if side.backend != "reference" or fits]
    return [*backends, WEIGHT_STANDARDISED, *([B_COS] if has_bcos() else [])]


def build(side: Side, shape: LayerShape) -> nn.Module:
    """The layer of a side, also of one that is not of the library."""
    if side == B_COS:
        size = (shape.channels_in, shape.channels_out, shape.kernel, shape.stride, shape.padding)
        return nn.Sequential(import_module("bcos.modules").BcosConv2d(*size), nn.BatchNorm2d(shape.channels_out))
    return make(side, shape)


def cases(networks: Sequence[str], device: str) -> list[Case]:
    """The layers of networks, with their work, and some with further sides."""
    return [_case(shape, device) for shape in shapes_of(networks, device)]


def _case(shape: LayerShape, device: str) -> Case:
    case = as_case(shape)
    case = replace(case, details=case.details | {"flop": flop(shape), "moved": moved(shape)})
    if shape.network not in QUICK:
        return case
    return replace(case, sides=[*case.sides, *more_sides(shape, device)], build=lambda side: build(side, shape))


def axes(device: str) -> dict[str, dict[int, LayerShape]]:
    """The layer that is grown, by what grows and how large that is."""
    base = GROWN[device]
    return {
        "images": {
            base.images * factor // 2: replace(base, images=base.images * factor // 2) for factor in (1, 2, 4, 8)
        },
        "channels": {n: replace(base, channels_in=n, channels_out=n) for n in (32, 48, 64, 96, 128)},
        "pixels": {n**2: replace(base, pixels=n) for n in (16, 24, 32, 48, 64)},
        "kernel values": {n**2: replace(base, kernel=n, padding=n // 2) for n in (1, 3, 5, 7)},
    }


def grow(conditions: Conditions, turns: int) -> Iterator[dict[str, Any]]:
    """How the time of a training step grows with the size of a layer."""
    mode = MODES[conditions.device][0]
    for axis, shapes in axes(conditions.device).items():
        times: dict[str, list[float]] = {side.name: [] for side in GROWN_SIDES}
        for shape in shapes.values():
            inputs = conditions.inputs(shape.input_size, gradient=True)
            modules = {side.name: conditions.place(make(side, shape)) for side in GROWN_SIDES}
            steps = {name: make_steps(module, inputs[0], conditions, mode)["both"] for name, module in modules.items()}
            for name, quartiles in take_turns(steps, inputs, mode, turns).items():
                times[name].append(quartiles["median"])
        for name, milliseconds in times.items():
            grown = {"axis": axis, "sizes": list(shapes), "milliseconds": milliseconds}
            yield {"precision": conditions.precision, "side": name, **grown, **fit(list(shapes), milliseconds)}


def fit(sizes: Sequence[float], times: Sequence[float]) -> Mapping[str, float]:
    """How times grow with sizes.

    Returns:
        ``slope`` of the straight line through the logarithms of both, with its ``r2``: 1 is proportional. And
        ``largest_step``, the most that time grew between neighbours for each time that the size grew.
    """
    x, y = ([math.log(value) for value in values] for values in (sizes, times))
    steps = [(times[i + 1] / times[i]) / (sizes[i + 1] / sizes[i]) for i in range(len(sizes) - 1)]
    return {
        "slope": round(linear_regression(x, y).slope, 4),
        "r2": round(correlation(x, y) ** 2, 4),
        "largest_step": round(max(steps), 4),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--network", choices=list(NETWORKS), action="append", help="its layers only; can be repeated")
    parser.add_argument("--mode", action="append", help="as of xcnorm bench layers; can be repeated")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--channels-last", action="store_true")
    given = parser.parse_args(arguments)
    device, turns = given.device, 3 if given.quick else 7
    networks, modes = given.network or list(QUICK if given.quick else NETWORKS), given.mode or [MODES[device][0]]
    everywhere = [Conditions(device, name, given.threads, given.channels_last) for name in PRECISIONS[device]]
    for line, result in compare("layers", cases(networks, device), everywhere[0], PRECISIONS[device], modes, turns):
        print(line, flush=True)
        write(given.out, result)
    if device == "cuda":
        grown = [shape for sizes in axes(device).values() for shape in sizes.values()]
        compile_ahead([(side, shape) for side in GROWN_SIDES for shape in grown], everywhere)
    with everywhere[0].applied():
        result["bcos_installed"] = has_bcos()
        result["ceilings"] = {here.precision: ceilings(here) for here in everywhere}
        result["growth"] = [row for here in everywhere for row in grow(here, turns)]
    write(given.out, result)


if __name__ == "__main__":
    main()
