"""How a layer or a network is measured, whatever it is: precisions, modes, clocks and memory."""

from __future__ import annotations

import copy
import itertools
import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from xcnorm.ops.cpu.matrix import multiply

MODES = {"cpu": ("eager", "compiled"), "cuda": ("graph", "eager", "compiled")}
"""How each device can run a step; measured by default: the first."""
PRECISIONS = {"cpu": ("fp32",), "cuda": ("bf16", "tf32")}
"""``bf16`` is autocast with an input that is in bfloat16 already, as inside a network; ``tf32`` are float32 tensors."""

LAYOUTS = {"cpu": torch.contiguous_format, "cuda": torch.channels_last}
"""How images and filters lie in memory; `settings` may change that of a CPU. The matrix units of a GPU want channels
last."""

Step = Callable[[Tensor], object]
Key = TypeVar("Key", bound=Hashable)

_SHORTEST = 2e-3  # seconds; what takes less is repeated, so that starting and stopping the clock does not count
_CACHE = 2**27  # bytes; more than any device's cache
_COPIED = {"cpu": 2**26, "cuda": 2**30}  # bytes, for the bandwidth
_MULTIPLIED = {"cpu": 2048, "cuda": 8192}  # rows and columns, for the matrix rate


@contextmanager
def settings(threads: int, *, channels_last: bool = False) -> Iterator[None]:
    """Torch as fast as it goes, on all sides: TF32 products, and cuDNN looks for its best algorithms.

    Args:
        threads: Of a CPU.
        channels_last: Whether channels come last on a CPU too.
    """
    before, layout = torch.get_num_threads(), LAYOUTS["cpu"]
    if channels_last:
        LAYOUTS["cpu"] = torch.channels_last
    tuned = torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    torch.set_num_threads(threads)
    torch.backends.cudnn.benchmark = torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.set_num_threads(before)
        LAYOUTS["cpu"] = layout
        torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = tuned[:2]
        torch.backends.cuda.matmul.allow_tf32 = tuned[2]


@contextmanager
def without_search() -> Iterator[None]:
    """CuDNN takes the algorithm it expects to be the best. Not for shapes to be timed: it keeps what it took first."""
    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, False
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def autocast(precision: str, device: str) -> torch.autocast:
    """What a forward runs in."""
    return torch.autocast(device, torch.bfloat16, enabled=precision == "bf16")


def dtype_of(precision: str) -> torch.dtype:
    """Of activations."""
    return torch.bfloat16 if precision == "bf16" else torch.float32


def ready(module: nn.Module, device: str) -> nn.Module:
    """A module on its device, in the layout of that."""
    return module.to(device).to(memory_format=LAYOUTS[device])  # type: ignore[call-overload]  # torch forgot it


def rotating_inputs(shape: tuple[int, ...], precision: str, device: str, *, gradient: bool) -> list[Tensor]:
    """Batches to go round in: as many as it takes for one to have left the cache when its turn comes again, up to 8.

    Args:
        shape: Of a batch, ``(N, C, H, W)``.
        precision: One of `PRECISIONS`.
        device: ``"cpu"`` or ``"cuda"``.
        gradient: Whether a step wants their gradients.
    """
    first = one_input(shape, precision, device, gradient=gradient)
    count = min(8, max(2, math.ceil(_CACHE / first.nbytes)))
    return [first] + [torch.randn_like(first).requires_grad_(gradient) for _ in range(count - 1)]


def one_input(shape: tuple[int, ...], precision: str, device: str, *, gradient: bool) -> Tensor:
    """One of `rotating_inputs`."""
    input = torch.randn(shape, device=device).to(dtype_of(precision), memory_format=LAYOUTS[device])
    return input.requires_grad_(gradient)


def race(
    modules: Mapping[str, nn.Module],
    inputs: Sequence[Tensor],
    precision: str,
    modes: Sequence[str],
    turns: int,
    slow: Collection[str] = (),
) -> dict[str, dict[str, Any]]:
    """Measure modules beside each other.

    Args:
        modules: In training mode, by name.
        inputs: What they take, in rotation.
        precision: One of `PRECISIONS`.
        modes: Some of `MODES`.
        turns: How often each is timed.
        slow: Names of those so much slower that two turns and inputs are enough.

    Returns:
        By name ``memory_mib``, of a training step in eager mode; and ``times``, by mode and quantity, the quartiles in
        milliseconds. The quantities are ``inference``, without gradients; ``forward`` and ``both``, in training; and
        ``backward``, what the medians of these two differ by.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, module in modules.items():
        step = make_steps(module, inputs[0], precision, "eager")["both"]
        found[name] = {"memory_mib": round(peak_memory(step, inputs[0]) / 2**20, 3), "times": {}}
    for mode in modes:
        with _compilations() if mode == "compiled" else nullcontext():
            steps = {
                (name, quantity): step
                for name, module in modules.items()
                for quantity, step in make_steps(module, inputs[0], precision, mode).items()
            }
            timed = take_turns({key: steps[key] for key in steps if key[0] not in slow}, inputs, mode, turns)
            timed |= take_turns({key: steps[key] for key in steps if key[0] in slow}, inputs[:2], mode, min(turns, 2))
        for (name, quantity), quartiles in timed.items():
            found[name]["times"].setdefault(mode, {})[quantity] = quartiles
        for side in found.values():
            times = side["times"][mode]
            backward = times["both"]["median"] - times["forward"]["median"]
            times["backward"] = {"median": round(max(0.0, backward), 5)}
    return found


def make_steps(module: nn.Module, example: Tensor, precision: str, mode: str) -> dict[str, Step]:
    """What is timed of a module: ``inference``, ``forward`` and ``both``, each a function of an input.

    The backward starts from a random gradient, and gradients are handed out, not added to what is there: neither a
    loss nor an optimiser costs anything here.
    """
    modules = module, copy.deepcopy(module).eval()
    trained, asked = (torch.compile(each, dynamic=False) if mode == "compiled" else each for each in modules)
    device = example.device.type

    def inference(input: Tensor) -> object:
        with torch.no_grad(), autocast(precision, device):
            return asked(input)

    def forward(input: Tensor) -> Tensor:
        with autocast(precision, device):
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
        repeats[name] = math.ceil(_SHORTEST / _seconds(runs[name], 1, device))
    seconds: dict[Key, list[float]] = {name: [] for name in steps}
    for _ in range(turns):
        for name, run in runs.items():
            seconds[name].append(_seconds(run, repeats[name], device) / count)
    return {name: _quartiles(values) for name, values in seconds.items()}


def peak_memory(step: Step, input: Tensor) -> int:
    """Most bytes held at once during a step in eager mode, its input included, beyond what was there before."""
    step(input)  # what libraries set up at first use stays
    if input.is_cuda:
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        step(input)
        return torch.cuda.max_memory_allocated() - before + input.nbytes
    return _counted(step, input) + input.nbytes


def ceilings(device: str, precision: str) -> dict[str, float]:
    """What the device can do at best: bytes a second of a large copy, and flop a second of a large matrix product."""
    source = torch.ones(_COPIED[device] // 4, device=device)
    target = torch.empty_like(source)
    size = _MULTIPLIED[device]
    matrix = torch.randn(size, size, device=device, dtype=dtype_of(precision))
    # On a CPU torch multiplies by one library and convolves by another, which may be the faster one.
    products = [lambda: matrix @ matrix, *([lambda: multiply(matrix, matrix)] if device == "cpu" else [])]
    copying, multiplying = (
        min(_seconds(run, 3, device) for run in runs for _ in range(5))
        for runs in ([lambda: target.copy_(source)], products)
    )
    return {"bytes_per_second": 2 * source.nbytes / copying, "flop_per_second": 2 * size**3 / multiplying}


@contextmanager
def _compilations() -> Iterator[None]:
    """Room for those of all sides: torch compiles a function for eight modules and runs it as it is for the ninth."""
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


def _seconds(run: Callable[[], object], repeats: int, device: str) -> float:
    """Of one run among several; on a GPU between two events of its own clock."""
    if device == "cuda":
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        for _ in range(repeats):
            run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / repeats
    clock = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - clock) / repeats


def _quartiles(seconds: Sequence[float]) -> dict[str, float]:
    quartiles = statistics.quantiles([1e3 * value for value in seconds], n=4, method="inclusive")
    return dict(zip(("low", "median", "high"), [round(value, 5) for value in quartiles], strict=True))


def _counted(step: Step, input: Tensor) -> int:
    """Peak of the CPU's allocations, from torch's record of each."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else the recorder announces itself on stderr each time
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as recorded:
        step(input)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        recorded.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    allocations = sorted((e for e in events if e.get("name") == "[memory]"), key=lambda event: event["ts"])
    return max(itertools.accumulate(event["args"]["Bytes"] for event in allocations))
