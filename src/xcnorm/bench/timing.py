"""Timing of modules beside each other: training steps and inference, as eager code, compiled, or as CUDA graphs."""

from __future__ import annotations

import copy
import itertools
import math
import statistics
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from xcnorm.bench.conditions import Conditions
from xcnorm.bench.memory import peak_memory

MODES = {"cpu": ("eager", "compiled"), "cuda": ("graph", "eager", "compiled")}
"""How each device can run a step; measured by default: the first."""

Step = Callable[[Tensor], object]
Key = TypeVar("Key", bound=Hashable)

_SHORTEST = 2e-3  # seconds; what takes less is repeated, so that starting and stopping the clock does not count


def race(
    modules: Mapping[str, nn.Module], inputs: Sequence[Tensor], conditions: Conditions, modes: Sequence[str], turns: int
) -> dict[str, dict[str, Any]]:
    """Measure modules beside each other.

    Args:
        modules: In training mode, by name.
        inputs: What they take, in rotation.
        conditions: Those of all modules.
        modes: Some of `MODES`.
        turns: How often each is timed.

    Returns:
        By name ``memory_mib``, of a training step in eager mode; and ``times``, by mode and quantity, the quartiles in
        milliseconds. The quantities are ``inference``, without gradients; ``forward`` and ``both``, in training; and
        ``backward``, what the medians of these two differ by.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, module in modules.items():
        step = make_steps(module, inputs[0], conditions, "eager")["both"]
        found[name] = {"memory_mib": round(peak_memory(step, inputs[0]) / 2**20, 3), "times": {}}
    for mode in modes:
        with _compilations() if mode == "compiled" else nullcontext():
            steps = {
                (name, quantity): step
                for name, module in modules.items()
                for quantity, step in make_steps(module, inputs[0], conditions, mode).items()
            }
            timed = take_turns(steps, inputs, mode, turns)
        for (name, quantity), quartiles in timed.items():
            found[name]["times"].setdefault(mode, {})[quantity] = quartiles
        for each in found.values():
            times = each["times"][mode]
            backward = times["both"]["median"] - times["forward"]["median"]
            times["backward"] = {"median": round(max(0.0, backward), 5)}
    return found


def make_steps(module: nn.Module, example: Tensor, conditions: Conditions, mode: str) -> dict[str, Step]:
    """What is timed of a module: ``inference``, ``forward`` and ``both``, each a function of an input.

    The backward starts from a random gradient, and gradients are handed out, not added to what is there: neither a
    loss nor an optimiser costs anything here.
    """
    modules = module, copy.deepcopy(module).eval()
    trained, asked = (torch.compile(each, dynamic=False) if mode == "compiled" else each for each in modules)

    def inference(input: Tensor) -> object:
        with torch.no_grad(), conditions.autocast():
            return asked(input)

    def forward(input: Tensor) -> Tensor:
        with conditions.autocast():
            output: Tensor = trained(input)
        return output

    def both(input: Tensor) -> object:
        wanted = [*module.parameters(), *([input] if input.requires_grad else [])]
        return torch.autograd.grad(forward(input), wanted, gradient)

    gradient = torch.randn_like(forward(example))
    return {"inference": inference, "forward": forward, "both": both}


def take_turns(
    steps: Mapping[Key, Step], inputs: Sequence[Tensor], mode: str, turns: int
) -> dict[Key, dict[str, float]]:
    """Time steps in turns, so that whatever else the machine does meets all of them.

    Args:
        steps: By any name.
        inputs: What they take, in rotation.
        mode: One of `MODES`; whether steps are recorded as a CUDA graph, which then runs over all inputs.
        turns: How often each is timed.

    Returns:
        Quartiles of the milliseconds of one step: ``low``, ``median`` and ``high``.
    """
    device = inputs[0].device.type
    count = len(inputs) if mode == "graph" else 1
    runs: dict[Key, Callable[[], object]] = {}
    repeats: dict[Key, int] = {}
    for name, step in steps.items():
        runs[name] = _recorded(step, inputs) if mode == "graph" else _rotating(step, inputs)
        runs[name]()  # warms up
        repeats[name] = math.ceil(_SHORTEST / seconds_taken(runs[name], device))
    found: dict[Key, list[float]] = {name: [] for name in steps}
    for _ in range(turns):
        for name, run in runs.items():
            found[name].append(seconds_taken(run, device, repeats[name]) / count)
    return {name: _quartiles(values) for name, values in found.items()}


def seconds_taken(run: Callable[[], object], device: str, repeats: int = 1) -> float:
    """How long one run among several takes; on a GPU between two events of its own clock."""
    if device == "cuda":
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        for _ in range(repeats):
            run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / repeats
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - start) / repeats


@contextmanager
def _compilations() -> Iterator[None]:
    """Room for those of all modules: torch compiles a function for eight and runs it as it is for the ninth."""
    torch.compiler.reset()
    with torch._dynamo.config.patch(recompile_limit=64, fail_on_recompile_limit_hit=True):
        yield


def _rotating(step: Step, inputs: Sequence[Tensor]) -> Callable[[], object]:
    order = itertools.cycle(inputs)
    return lambda: step(next(order))


def _recorded(step: Step, inputs: Sequence[Tensor]) -> Callable[[], object]:
    """A CUDA graph of one step for each input."""

    def run() -> None:
        for input in inputs:
            step(input)

    # On a stream of its own, as what runs before a recording must.
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def _quartiles(seconds: Sequence[float]) -> dict[str, float]:
    quartiles = statistics.quantiles([1e3 * value for value in seconds], n=4, method="inclusive")
    return dict(zip(("low", "median", "high"), [round(value, 5) for value in quartiles], strict=True))
