"""What our layers cost beside convolution, norm and activation, layer by layer of our networks.

Every shape passes a correctness gate before it is timed; all sides are measured in one run, in turns.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from xcnorm.bench.ahead import compile_ahead
from xcnorm.bench.shapes import QUICK, Shape, shapes_of
from xcnorm.bench.sides import BY_BACKEND, OURS, PLAIN, compare, gate, has_bcos, make, opponents
from xcnorm.bench.summary import CPU_BARS, Bar, brief, fit, judge
from xcnorm.bench.timing import MODES, ceilings, make_steps, ready, rotating_inputs, settings, take_turns
from xcnorm.environment import environment

BARS = (
    Bar("cuda", "both", "graph", {"xcnorm": 1.25, "r_xcnorm": 1.8}, worst={"xcnorm": 1.6, "r_xcnorm": 2.5}),
    Bar("cuda", "memory", "eager", {"xcnorm": 1.2, "r_xcnorm": 1.2}),
    *CPU_BARS,
)

_GROWN = {
    "cpu": Shape(4, 64, 64, 32, 3, padding=1),
    "cuda": Shape(128, 64, 64, 32, 3, padding=1),
}
_GROWN_SIDES = (PLAIN, "xcnorm", "r_xcnorm")


def measure(
    device: str,
    networks: Sequence[str],
    precisions: Sequence[str],
    modes: Sequence[str],
    turns: int,
    threads: int,
    channels_last: bool,
    done: Callable[[str], None],
    keep: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """Measure the layers of networks, and how the cost of one grows.

    Args:
        device: ``"cpu"`` or ``"cuda"``.
        networks: Some of `xcnorm.bench.shapes.NETWORKS`.
        precisions: Some of `xcnorm.bench.timing.PRECISIONS`.
        modes: Some of `xcnorm.bench.timing.MODES`.
        turns: How often each is timed.
        threads: Of a CPU.
        channels_last: Whether channels come last in memory on a CPU; on a GPU they do.
        done: Told in a line of each shape.
        keep: Given what there is so far after each shape: a run may take long, and not reach its end.
    """
    shapes = shapes_of(networks, device)
    rows: list[dict[str, Any]] = []
    growth: list[dict[str, Any]] = []
    if not has_bcos():
        done("b-cos conv: not measured, because the package bcos cannot be imported")
    with settings(threads, channels_last=channels_last):
        result = {
            "subject": "layers",
            "device": device,
            "environment": environment(device),
            "precisions": list(precisions),
            "modes": list(modes),
            "turns": turns,
            "channels_last": channels_last or device == "cuda",
            "bcos_installed": has_bcos(),
            "ceilings": {precision: ceilings(device, precision) for precision in precisions},
            "cases": {shape.name: shape.to_dict() for shape in shapes},
            "rows": rows,
            "growth": growth,
        }
        if device == "cuda":
            grown = [shape for sizes in _axes(device).values() for shape in sizes.values()]
            ours = [side for side in _GROWN_SIDES if side != PLAIN]
            compile_ahead(shapes, itertools.product(ours, grown), precisions, done)
        for precision in precisions:
            for number, shape in enumerate(shapes, start=1):
                rows += (measured := _measure(shape, device, precision, modes, turns))
                done(f"{precision} {number}/{len(shapes)} {shape.name}: {brief(measured, precision, modes[0])}")
                keep(result)
            done(f"{precision} growth")
            growth += _grow(device, precision, turns)
    return result | {"bars": judge(result, BARS)}


def _measure(shape: Shape, device: str, precision: str, modes: Sequence[str], turns: int) -> list[dict[str, Any]]:
    sides = [PLAIN, *OURS, *(opponents(shape, device) if shape.network in QUICK else [])]
    gates = {side: gate(side, shape, precision, device) for side in sides if side in OURS or side in BY_BACKEND}
    inputs = rotating_inputs(shape.input_size, precision, device, gradient=not shape.first)
    slow = BY_BACKEND if device == "cuda" else ()
    return compare(shape.name, sides, gates, lambda side: make(side, shape), inputs, precision, modes, turns, slow)


def _axes(device: str) -> dict[str, dict[int, Shape]]:
    """The layer that is grown, by what grows and how large that is."""
    base = _GROWN[device]
    return {
        "images": {
            base.images * factor // 2: replace(base, images=base.images * factor // 2) for factor in (1, 2, 4, 8)
        },
        "channels": {n: replace(base, channels_in=n, channels_out=n) for n in (32, 48, 64, 96, 128)},
        "pixels": {n**2: replace(base, pixels=n) for n in (16, 24, 32, 48, 64)},
        "kernel values": {n**2: replace(base, kernel=n, padding=n // 2) for n in (1, 3, 5, 7)},
    }


def _grow(device: str, precision: str, turns: int) -> Iterator[dict[str, Any]]:
    mode = MODES[device][0]
    for axis, shapes in _axes(device).items():
        times: dict[str, list[float]] = {side: [] for side in _GROWN_SIDES}
        for shape in shapes.values():
            inputs = rotating_inputs(shape.input_size, precision, device, gradient=True)
            modules = {side: ready(make(side, shape), device) for side in _GROWN_SIDES}
            steps = {side: make_steps(module, inputs[0], precision, mode)["both"] for side, module in modules.items()}
            for side, quartiles in take_turns(steps, inputs, mode, turns).items():
                times[side].append(quartiles["median"])
        for side, milliseconds in times.items():
            grown = {"axis": axis, "sizes": list(shapes), "milliseconds": milliseconds}
            yield {"precision": precision, "side": side, **grown, **fit(list(shapes), milliseconds)}
