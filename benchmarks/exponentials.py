"""Exponentials and logarithms alone, which our inference on a CPU cannot do without: a floor of its cost.

    python -m benchmarks.exponentials --out benchmarks/results/exponentials_cpu.json

times, on one thread and in turns, a plain layer, ours, and as many of torch's exponentials and logarithms as ours
cannot do without, in blocks that stay in cache: to sharpen, a logarithm and a power of two for each output; to apply
phi, a power of two for each value of each patch, or with the function as printed an ``expm1``. The least that a layer
of ours can take is a plain one and these; patches and channels still have to be standardised then, and inputs padded.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.roofline import patch, positions
from xcnorm.allocator import keep_freed_memory
from xcnorm.bench.conditions import Conditions
from xcnorm.bench.gate import gate
from xcnorm.bench.shapes import QUICK, LayerShape, shapes_of
from xcnorm.bench.sides import CONV, OURS, make
from xcnorm.environment import environment
from xcnorm.ops.cpu.blockwise import BLOCK

ROBUST: dict[str, Callable[..., Tensor] | None] = {
    "xcnorm": None,
    "r_xcnorm": torch.exp2,
    "r_xcnorm paper": torch.expm1,
}
TURNS = 15
CONDITIONS = Conditions("cpu", "fp32")


def measure(shape: LayerShape) -> dict[str, float]:
    """Milliseconds of each."""
    inputs = itertools.cycle(CONDITIONS.inputs(shape.input_size, gradient=False))
    ours = [side for side in OURS if side.name in ROBUST]
    layers = {side.name: CONDITIONS.place(make(side, shape)).eval() for side in (CONV, *ours)}
    assert all(gate(side, shape, CONDITIONS)["passed"] for side in ours)
    values = torch.rand(BLOCK)
    runs: dict[str, Callable[[], object]] = {
        side: functools.partial(_next, layer, inputs) for side, layer in layers.items()
    }
    outputs, patches = positions(shape) * shape.channels_out, positions(shape) * patch(shape)
    runs["sharpen"] = functools.partial(_blockwise, [torch.log2, torch.exp2], values, outputs)
    for side, robust in ROBUST.items():
        if robust is not None:
            runs[f"robust {side}"] = functools.partial(_blockwise, [robust], values, patches)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    with torch.no_grad():
        for _ in range(TURNS):
            for name, run in runs.items():
                start = time.perf_counter()
                run()
                seconds[name].append(time.perf_counter() - start)
    return {name: round(1e3 * median(found), 4) for name, found in seconds.items()}


def _next(layer: nn.Module, inputs: Iterator[Tensor]) -> None:
    layer(next(inputs))


def _blockwise(functions: Sequence[Callable[..., Tensor]], values: Tensor, count: int) -> None:
    scratch = torch.empty_like(values)
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        for function in functions:
            function(values[:size], out=scratch[:size])


def ratios(rows: Iterable[Mapping[str, float]]) -> str:
    """Geometric means of the least and of what is, as multiples of the plain layer."""
    rows, words, conv = list(rows), [], CONV.name
    for side in ROBUST:
        least = [(row[conv] + row["sharpen"] + row.get(f"robust {side}", 0)) / row[conv] for row in rows]
        found = [row[side] / row[conv] for row in rows]
        words.append(f"{side} {geometric_mean(found):.2f}, at least {geometric_mean(least):.2f}")
    return "; ".join(words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    given = parser.parse_args()
    keep_freed_memory()
    found: dict[str, Any] = {}
    with CONDITIONS.applied():
        where = environment("cpu")
        for shape in shapes_of(QUICK, "cpu"):
            row = found[shape.name] = measure(shape)
            print(f"{shape.name:36} {row[CONV.name]:6.2f} ms; {ratios([row])}", flush=True)
    print(f"{'geometric mean':47} {ratios(found.values())}")
    if given.out is not None:
        given.out.write_text(json.dumps({"environment": where, "layers": found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
