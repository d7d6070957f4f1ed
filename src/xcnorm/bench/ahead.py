"""Kernels compiled before anything is measured, on all cores.

Triton compiles in the process that runs a kernel, one after the other. Its cache is on disk, though: what other
processes compiled meanwhile is there when the measurement asks for it.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor

import torch

from xcnorm.bench.conditions import Conditions, without_search
from xcnorm.bench.gate import small
from xcnorm.bench.shapes import LayerShape
from xcnorm.bench.sides import OURS, Side, make
from xcnorm.bench.timing import make_steps
from xcnorm.environment import cores


def compile_ahead(layers: Iterable[tuple[Side, LayerShape]], conditions: Sequence[Conditions]) -> None:
    """Run layers of ours, and what their gates look at, once on a GPU, spread over processes.

    Args:
        layers: Those that will be measured; others than ours have nothing to compile.
        conditions: Those they will be measured under.
    """
    if cores() < 2:
        return
    ours = [(side, size) for side, shape in layers if side in OURS for size in (shape, small(shape))]
    # Processes of their own from the start: a forked one could not use the GPU.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(cores(), context, initializer=_without_tuning) as processes:
        # Neighbours in this order need different kernels.
        jobs = [(here, side, shape) for here in conditions for side, shape in dict.fromkeys(ours)]
        for running in [processes.submit(_run, *job) for job in jobs]:
            running.result()


def _without_tuning() -> None:
    """On a GPU that many processes use at a time, timed blocks mean nothing, but would be remembered."""
    os.environ["XCNORM_AUTOTUNE"] = "0"


def _run(conditions: Conditions, side: Side, shape: LayerShape) -> None:
    """A training step and an inference. What fails here will fail again where somebody looks at it."""
    try:
        with conditions.applied(), without_search():
            input = conditions.input(shape.input_size, gradient=not shape.first)
            steps = make_steps(conditions.place(make(side, shape)), input, conditions, "eager")
            steps["both"](input)
            steps["inference"](input)
            torch.cuda.synchronize()
    except RuntimeError:
        torch.cuda.empty_cache()
