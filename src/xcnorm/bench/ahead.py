"""Kernels compiled before anything is measured, on all cores.

Triton compiles in the process that runs a kernel, one after the other. Its cache is on disk, though: what other
processes compiled meanwhile is there when the measurement asks for it.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor

import torch

from xcnorm.bench.shapes import Shape
from xcnorm.bench.sides import OURS, make, small
from xcnorm.bench.timing import make_steps, one_input, ready, settings, without_search


def compile_ahead(
    shapes: Sequence[Shape], grown: Iterable[tuple[str, Shape]], precisions: Sequence[str], done: Callable[[str], None]
) -> None:
    """Run layers of ours once on a GPU, spread over processes.

    Args:
        shapes: Of layers that will be measured on all our sides, behind their gates.
        grown: Further sides and shapes, without gates.
        precisions: Some of `xcnorm.bench.timing.PRECISIONS`.
        done: Told in a line what happens.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cores < 2:
        return
    done(f"compiling kernels on {cores} cores")
    jobs = layers_ahead(shapes, grown)
    # Processes of their own from the start: a forked one could not use the GPU.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(cores, context, initializer=_without_tuning) as pool:
        # Neighbours in this order need different kernels.
        running = [pool.submit(_run, precision, *job) for precision, job in itertools.product(precisions, jobs)]
        for job in running:
            job.result()


def layers_ahead(shapes: Sequence[Shape], grown: Iterable[tuple[str, Shape]]) -> list[tuple[str, Shape]]:
    """Sides and shapes to run, each once: those to be measured, and those that their gates look at."""
    sizes = [*shapes, *map(small, shapes)]
    return list(dict.fromkeys([*itertools.product(OURS, sizes), *grown]))


def _without_tuning() -> None:
    """On a GPU that many processes use at a time, timed blocks mean nothing, but would be remembered."""
    os.environ["XCNORM_AUTOTUNE"] = "0"


def _run(precision: str, side: str, shape: Shape) -> None:
    """A training step and an inference. What fails here will fail again where somebody looks at it."""
    try:
        with settings(threads=1), without_search():
            input = one_input(shape.input_size, precision, "cuda", gradient=not shape.first)
            steps = make_steps(ready(make(side, shape), "cuda"), input, precision, "eager")
            steps["both"](input)
            steps["inference"](input)
            torch.cuda.synchronize()
    except RuntimeError:
        torch.cuda.empty_cache()
