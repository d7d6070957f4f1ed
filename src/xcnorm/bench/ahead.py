"""Kernels compiled before anything is measured, on all cores.

Triton compiles in the process that runs a kernel, one after the other. Its cache is on disk, though: what other
processes compiled meanwhile is there when the measurement asks for it.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor

import torch

from xcnorm.bench.shapes import Shape
from xcnorm.bench.sides import OURS, make
from xcnorm.bench.timing import make_steps, ready, rotating_inputs, settings


def compile_ahead(shapes: Sequence[Shape], precisions: Sequence[str], done: Callable[[str], None]) -> None:
    """Run every layer of ours once on a GPU, spread over processes.

    Args:
        shapes: Of the layers.
        precisions: Some of `xcnorm.bench.timing.PRECISIONS`.
        done: Told in a line what happens.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cores < 2:
        return
    done(f"compiling kernels on {cores} cores")
    # Processes of their own from the start: a forked one could not use the GPU.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(cores, context) as pool:
        # Neighbours in this order need different kernels.
        jobs = [pool.submit(_run, *job) for job in itertools.product(precisions, OURS, shapes)]
        for job in jobs:
            job.result()


def _run(precision: str, side: str, shape: Shape) -> None:
    """A training step and an inference. What fails here will fail again where somebody looks at it."""
    try:
        with settings(threads=1):
            input = rotating_inputs(shape.input_size, precision, "cuda", gradient=not shape.first)[0]
            steps = make_steps(ready(make(side, shape), "cuda"), input, precision, "eager")
            steps["both"](input)
            steps["inference"](input)
            torch.cuda.synchronize()
    except RuntimeError:
        torch.cuda.empty_cache()
