"""Comparisons: cases, such as layers or networks, measured on several sides, each behind its correctness gate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from xcnorm.bench.ahead import compile_ahead
from xcnorm.bench.conditions import Conditions
from xcnorm.bench.gate import gate
from xcnorm.bench.shapes import LayerShape
from xcnorm.bench.sides import SIDES, Side
from xcnorm.bench.summary import brief
from xcnorm.bench.timing import race
from xcnorm.environment import environment
from xcnorm.nn import find_form

Result = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """What is measured on several sides.

    Args:
        name: As in tables.
        shapes: The layers in it, all of which must pass a side's gate.
        input_size: Of a batch, ``(N, C, H, W)``.
        gradient: Whether a training step wants the gradient of its input.
        build: Makes a side's module.
        details: What else JSON should hold of it.
        sides: What is compared.
    """

    name: str
    shapes: Sequence[LayerShape]
    input_size: tuple[int, ...]
    gradient: bool
    build: Callable[[Side], nn.Module]
    details: dict[str, Any]
    sides: Sequence[Side] = SIDES


def compare(
    subject: str,
    cases: Sequence[Case],
    conditions: Conditions,
    precisions: Sequence[str],
    modes: Sequence[str],
    turns: int,
) -> Iterator[tuple[str, Result]]:
    """Measure cases one after the other: a run may take long, and not reach its end.

    Args:
        subject: What the cases are, such as ``"layers"``.
        cases: What is measured.
        conditions: Those of all sides; their precision is each of ``precisions`` in turn.
        precisions: Some of `xcnorm.bench.conditions.PRECISIONS`.
        modes: Some of `xcnorm.bench.timing.MODES`.
        turns: How often each is timed.

    Yields:
        A line that tells how it goes, and the result so far.
    """
    everywhere = [replace(conditions, precision=precision) for precision in precisions]
    rows: list[dict[str, Any]] = []
    with conditions.applied():
        result: Result = {
            "subject": subject,
            "device": conditions.device,
            "environment": environment(conditions.device),
            "precisions": list(precisions),
            "modes": list(modes),
            "turns": turns,
            "channels_last": conditions.channels_last or conditions.device == "cuda",
            "cases": {case.name: case.details for case in cases},
            "rows": rows,
        }
        if conditions.device == "cuda":
            yield "compiling kernels on all cores", result
            compile_ahead([(side, shape) for case in cases for side in case.sides for shape in case.shapes], everywhere)
        for number, (here, case) in enumerate(((here, case) for here in everywhere for case in cases), start=1):
            rows += (measured := _measure(case, here, modes, turns))
            place = f"{number}/{len(everywhere) * len(cases)} {here.precision}"
            yield f"{place} {case.name}: {brief(measured, here.precision, modes[0])}", result


def _measure(case: Case, conditions: Conditions, modes: Sequence[str], turns: int) -> list[dict[str, Any]]:
    """A row for each side; those that did not pass their gate have no times."""
    gates = {
        side.name: _worst(gate(side, shape, conditions) for shape in case.shapes)
        for side in case.sides
        if find_form(side.layer).whole
    }
    passed = [side for side in case.sides if side.name not in gates or gates[side.name]["passed"]]
    modules = {side.name: conditions.place(case.build(side)) for side in passed}
    inputs = conditions.inputs(case.input_size, gradient=case.gradient)
    found = race(modules, inputs, conditions, modes, turns)
    nothing: dict[str, Any] = {"memory_mib": None, "times": {}}
    return [
        {"case": case.name, "precision": conditions.precision, "side": name, "gate": gates.get(name)}
        | found.get(name, nothing)
        for name in (side.name for side in case.sides)
    ]


def _worst(gates: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """One that is red if there is any, else the one with the largest error."""
    return min(gates, key=lambda each: (each["passed"], -each["output"]))
