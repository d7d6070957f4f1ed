"""What a layer costs: Conv2d + BatchNorm2d + ReLU, XCNorm and R-XCNorm, forward and backward, in one run.

    python -m benchmarks.layers [--device cuda] [--quick] [--out results.json]

Every shape passes the correctness gate first (dense against reference, in float64) or is not timed. Sides take turns
within a repetition, so that whatever else the machine does meets all of them. On a CPU one thread is used: two threads
on a shared machine measure the machine.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from xcnorm.environment import environment
from xcnorm.nn import RXCNormConv2d, XCNormConv2d


class Shape(NamedTuple):
    """One layer of one of our networks."""

    name: str
    images: int
    channels_in: int
    channels_out: int
    pixels: int
    kernel: int
    padding: int


SHAPES = [
    Shape("digits_cnn 1", 32, 3, 64, 32, 5, 0),
    Shape("digits_cnn 2", 32, 64, 128, 14, 5, 0),
    Shape("wrn16_4 group 1", 32, 64, 64, 32, 3, 1),
    Shape("wrn16_4 group 2", 32, 128, 128, 16, 3, 1),
    Shape("wrn16_4 group 3", 32, 256, 256, 8, 3, 1),
]


def sides(shape: Shape) -> dict[str, nn.Module]:
    """The opponents, plain first."""
    size = (shape.channels_in, shape.channels_out, shape.kernel)
    padded: dict[str, Any] = {"padding": shape.padding, "padding_mode": "replicate"}
    return {
        "conv+bn+relu": nn.Sequential(
            nn.Conv2d(*size, padding=shape.padding, bias=False), nn.BatchNorm2d(shape.channels_out), nn.ReLU()
        ),
        "xcnorm": XCNormConv2d(*size, **padded),
        "xcnorm paper": XCNormConv2d(*size, preset="paper", **padded),
        "r_xcnorm": RXCNormConv2d(*size, **padded),
        "r_xcnorm paper": RXCNormConv2d(*size, preset="paper", **padded),
        "r_xcnorm reference": RXCNormConv2d(*size, backend="reference", **padded),
    }


def gate(shape: Shape) -> float:
    """Largest difference between dense and reference in float64, over output and input gradient."""
    worst = 0.0
    for cls in (XCNormConv2d, RXCNormConv2d):
        answers = []
        for backend in ("dense", "reference"):
            torch.manual_seed(0)
            size = (shape.channels_in, shape.channels_out, shape.kernel)
            layer = cls(*size, padding=shape.padding, norm="none", backend=backend, dtype=torch.float64)
            x = torch.randn(1, shape.channels_in, shape.pixels, shape.pixels, dtype=torch.float64, requires_grad=True)
            output = layer(x)
            output.square().sum().backward()
            assert x.grad is not None
            answers.append((output.detach(), x.grad))
        worst = max([worst, *(float((a - b).abs().max()) for a, b in zip(*answers, strict=True))])
    return worst


def timed(step: Callable[[], None], device: str) -> float:
    """Seconds one step takes, the device's queue included."""
    if device == "cuda":
        torch.cuda.synchronize()
    clock = time.perf_counter()
    step()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - clock


def measure(shape: Shape, device: str, repeats: int) -> dict[str, list[float]]:
    """Milliseconds of forward and backward for every side and repetition."""
    inputs = [
        torch.randn(shape.images, shape.channels_in, shape.pixels, shape.pixels, device=device, requires_grad=True)
        for _ in range(3)
    ]

    def step(module: nn.Module, x: Tensor) -> None:
        module.zero_grad()
        x.grad = None
        module(x).sum().backward()

    modules = {name: module.to(device) for name, module in sides(shape).items()}
    for module in modules.values():
        step(module, inputs[0])
    times: dict[str, list[float]] = {name: [] for name in modules}
    for repeat in range(repeats):
        for name, module in modules.items():
            x = inputs[repeat % len(inputs)]
            times[name].append(1000 * timed(lambda module=module, x=x: step(module, x), device))  # type: ignore[misc]
    return times


def main() -> None:
    """Gate, measure, print ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--quick", action="store_true", help="three repetitions instead of nine")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: this machine has no CUDA device that torch can use")
    torch.set_num_threads(1)

    results: dict[str, Any] = {"environment": environment(arguments.device), "unit": "ms", "shapes": {}}
    names = list(sides(SHAPES[0]))
    print("forward + backward, median ms (ratio to conv+bn+relu)")
    print(f"{'layer':18}{''.join(f'{name:>22}' for name in names)}", flush=True)
    ratios: dict[str, list[float]] = {name: [] for name in names}
    for shape in SHAPES:
        if (error := gate(shape)) > 1e-9:
            raise SystemExit(f"{shape.name}: dense differs from reference by {error:.1e}; not timed")
        times = measure(shape, arguments.device, 3 if arguments.quick else 9)
        medians = {name: statistics.median(values) for name, values in times.items()}
        results["shapes"][shape.name] = {"shape": shape._asdict(), "gate": error, "times": times}
        cells = []
        for name, median in medians.items():
            ratios[name].append(median / medians[names[0]])
            cells.append(f"{median:8.1f} ({ratios[name][-1]:5.2f}x)")
        print(f"{shape.name:18}{''.join(f'{cell:>22}' for cell in cells)}", flush=True)
    means = {name: math.exp(statistics.fmean(map(math.log, values))) for name, values in ratios.items()}
    print(f"{'geometric mean':18}{''.join(f'{mean:>21.2f}x' for mean in means.values())}")
    results["geometric_mean_ratio"] = means
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
