"""Two versions of the package beside each other: every layer and training step of some networks, in turns.

    python -m benchmarks.versions OLD/src src --device cuda --network wrn16_4 --commits OLD NEW --out versions.json

Each version lives in a process of its own, imported from the folder given; the two are asked in turns, so that both see
the same machine. A layer's line has the time of forward and backward of the new version over that of the old, a
network's that of a training step without an optimiser. On a GPU, a step is a CUDA graph.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

LAYERS: dict[str, dict[str, Any]] = {
    "xcnorm": {"layer": "xcnorm"},
    "xcnorm paper": {"layer": "xcnorm", "preset": "paper"},
    "r_xcnorm": {"layer": "r_xcnorm"},
    "r_xcnorm paper": {"layer": "r_xcnorm", "preset": "paper"},
}
PIXELS = {"resnet18": 224, "resnet50": 224, "densenet121": 96}
PRECISIONS = {"cpu": ("float32",), "cuda": ("bf16", "tf32")}
PARTS = 7  # processes that compile a version's kernels
SECONDS = 0.05  # that a GPU, or at least one call that a CPU, is timed for in a turn


def cases(networks: list[str], device: str, batch: int) -> dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]]:
    """Everything that is timed: how to make the module, and the shape of its input."""
    import xcnorm

    found: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {}
    for network in networks:
        size = (batch, 3, PIXELS.get(network, 32), PIXELS.get(network, 32))
        for side, options in LAYERS.items():

            def make(network: str = network, options: dict[str, Any] = options) -> nn.Module:
                torch.manual_seed(0)
                return xcnorm.create_model(network, num_classes=10, rectify_first="relu", **options)

            found[f"{network}, {side}"] = make, size
            with torch.no_grad():
                for name, shape in _inputs(make().eval(), size).items():
                    layer = make().get_submodule(name)
                    kernel = "x".join(map(str, layer.get_parameter("weight").shape))
                    stride = getattr(layer, "stride", (1,))[0]
                    case = f"{side}: {kernel}, stride {stride}, {'x'.join(map(str, shape))}"
                    found.setdefault(case, (lambda make=make, name=name: make().get_submodule(name), shape))  # type: ignore[misc]
    return found


def _inputs(model: nn.Module, size: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """The shape of what reaches each XCNorm layer."""
    from xcnorm.nn import XCNormLayer

    shapes: dict[str, tuple[int, ...]] = {}

    def keep(name: str) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        return lambda module, inputs: shapes.__setitem__(name, (size[0], *inputs[0].shape[1:]))

    for name, module in model.named_modules():
        if isinstance(module, XCNormLayer):
            module.register_forward_pre_hook(keep(name))
    model(torch.rand(2, *size[1:]))
    return shapes


def step_of(make: Callable[[], nn.Module], size: tuple[int, ...], device: str, precision: str) -> Callable[[], None]:
    """Forward and backward of a module, ready to be timed."""
    module = make().to(device).train()
    input = torch.rand(size, device=device)
    if device == "cuda":
        if input.ndim == 4:
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch does not declare it
            input = input.contiguous(memory_format=torch.channels_last)
        input = input.bfloat16() if precision == "bf16" else input
    input.requires_grad_()

    def step() -> None:
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
            output = module(input)
        torch.autograd.backward(output, torch.ones_like(output))

    for _ in range(3):
        step()
    if device == "cpu":
        return step
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def compile_part(networks: list[str], device: str, batch: int, part: int) -> None:
    """Run each case of a part once, so that its kernels are compiled and kept on disk."""
    _settings()
    for make, size in list(cases(networks, device, batch).values())[part::PARTS]:
        for precision in PRECISIONS[device]:
            step_of(make, size, device, precision)


def seconds_of(step: Callable[[], None], device: str) -> float:
    """Seconds of one step; of many on a GPU, whose clock is read."""
    if device == "cpu":
        started = perf_counter()
        step()
        return perf_counter() - started
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    step()
    begin.record()
    step()
    end.record()
    torch.cuda.synchronize()
    count = max(1, math.ceil(1000 * SECONDS / begin.elapsed_time(end)))
    begin.record()
    for _ in range(count):
        step()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / 1000 / count


def serve(networks: list[str], device: str, batch: int) -> None:
    """Answer the questions on standard input: names first, then the seconds of the case that is asked for."""
    answers, sys.stdout = sys.stdout, sys.stderr
    _settings()
    known = cases(networks, device, batch)
    print(json.dumps(list(known)), file=answers, flush=True)
    current, step = None, None
    for line in sys.stdin:
        asked = json.loads(line)
        if asked != current:
            step = None  # frees what the last one held
            torch.cuda.empty_cache()
            step = step_of(*known[asked["case"]], device, asked["precision"])
            current = asked
        assert step is not None
        print(json.dumps(seconds_of(step, device)), file=answers, flush=True)


def _settings() -> None:
    from xcnorm.allocator import keep_freed_memory

    keep_freed_memory()
    torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True


def main() -> None:
    """Ask both versions in turns, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--network", action="append", default=None)
    parser.add_argument("--batch", type=int, default=None)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--commits", nargs=2, metavar=("OLD", "NEW"), help="of the two, for the file")
    parser.add_argument("--out", type=Path, default=None)
    given = parser.parse_args()
    networks = given.network or ["digits_cnn", "wrn16_4"]
    batch = given.batch or (128 if given.device == "cuda" else 8)
    arguments = f"{networks!r}, {given.device!r}, {batch}"
    if given.device == "cuda":
        calls = [f"compile_part({arguments}, {part})" for part in range(PARTS)]
        for process in [_process(source, call) for call in calls for source in (given.old, given.new)]:
            process.wait()
        print("compiled", flush=True)
    workers = [_process(source, f"serve({arguments})") for source in (given.old, given.new)]
    names = [json.loads(worker.stdout.readline()) for worker in workers]  # type: ignore[union-attr]
    if names[0] != names[1]:
        sys.exit(f"the versions do not have the same layers: {set(names[0]) ^ set(names[1])}")
    rows = []
    for precision in PRECISIONS[given.device]:
        for name in names[0]:
            question = json.dumps({"case": name, "precision": precision})
            seconds: list[list[float]] = [[], []]
            for turn in range(given.turns):
                for side in (0, 1) if turn % 2 == 0 else (1, 0):
                    seconds[side].append(_ask(workers[side], question))
            old, new = (min(values) for values in seconds)
            rows.append({"case": name, "precision": precision, "old": old, "new": new, "ratio": new / old})
            print(f"{precision} {name}: {1e3 * old:.3f} ms, {1e3 * new:.3f} ms, ratio {new / old:.3f}", flush=True)
    ratios = sorted(row["ratio"] for row in rows)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"{len(rows)} cases: geometric mean {mean:.3f}, least {ratios[0]:.3f}, most {ratios[-1]:.3f}")
    if given.out is not None:
        from xcnorm.environment import environment

        machine = environment(given.device) | {"threads": 1}
        del machine["commit"], machine["xcnorm"]  # there are two
        result = {"environment": machine, "commits": given.commits, "batch": batch, "turns": given.turns, "rows": rows}
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def _process(source: Path, call: str) -> subprocess.Popen[str]:
    """One call of a function of this file, by the package in a folder."""
    folders = [str(source.resolve()), str(Path(__file__).parents[1])]
    return subprocess.Popen(
        [sys.executable, "-c", f"from benchmarks.versions import *; {call}"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(folders)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _ask(worker: subprocess.Popen[str], question: str) -> float:
    assert worker.stdin is not None
    assert worker.stdout is not None
    print(question, file=worker.stdin, flush=True)
    answer = worker.stdout.readline()
    if not answer:
        sys.exit("a version ended: its message stands above")
    seconds: float = json.loads(answer)
    return seconds


if __name__ == "__main__":
    main()
