"""Loading of Digits, and a batch of CIFAR-10's pipeline beside a training step of wrn16_4.

python -m benchmarks.loading --data DIR --device cuda
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.results_file import add_options, write
from xcnorm import data
from xcnorm.bench.corruptions import crops
from xcnorm.bench.timing import seconds_taken
from xcnorm.data import Sampler, transforms
from xcnorm.data.parts import MissingPartError
from xcnorm.environment import environment
from xcnorm.models import create_model

BATCH = 128
IMAGES = 50_000  # as many as CIFAR-10 has


def measure(device: str, root: Path | None, repeats: int = 5) -> dict[str, Any]:
    """Time a batch of the CIFAR-10 pipeline against a training step of wrn16_4, and the loading of Digits.

    Args:
        device: ``"cpu"`` or ``"cuda"``.
        root: The folder that holds the data of ``digits``; where it has no MNIST, ``digits-mini`` is loaded instead.
        repeats: How often each is timed; the median counts.
    """
    name, clock = "digits", time.perf_counter()
    try:
        benchmark = data.load(name, root)
    except MissingPartError:
        name, clock = "digits-mini", time.perf_counter()
        benchmark = data.load(name, root)
    for _ in benchmark.targets.values():  # some are made when they are asked for
        pass
    loading = time.perf_counter() - clock
    memory = _peak_memory()
    missing = list(benchmark.missing)
    del benchmark

    images = crops(IMAGES, 32).to(device)
    labels = (torch.arange(IMAGES) % 10).to(device)
    generator = torch.Generator().manual_seed(0)
    order = iter(Sampler(IMAGES, BATCH))

    def batch() -> tuple[Tensor, Tensor]:
        index = next(order).to(device)
        chosen = transforms.random_crop(transforms.random_flip(images[index], generator), generator)
        return transforms.normalise(chosen, 0.5, 0.5), labels[index]

    model = create_model("wrn16_4", layer="conv").to(device).train()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    inputs, answers = batch()

    def step() -> None:
        optimiser.zero_grad()
        F.cross_entropy(model(inputs), answers).backward()
        optimiser.step()

    batch_seconds, step_seconds = _time(batch, device, 20, repeats), _time(step, device, 1, repeats)
    return {
        "environment": environment(device),
        "loaded": name,
        "missing": missing,
        "loading_seconds": loading,
        "peak_memory_mib": memory,
        "batch_milliseconds": 1e3 * batch_seconds,
        "step_milliseconds": 1e3 * step_seconds,
        "batch_to_step": batch_seconds / step_seconds,
    }


def _time(work: Callable[[], object], device: str, rounds: int, repeats: int) -> float:
    work()
    return statistics.median(seconds_taken(work, device, rounds) for _ in range(repeats))


def _peak_memory() -> float | None:
    """The most memory this process has held so far, torch itself included, in MiB; None where nobody can tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--data", type=Path, help="folder of the data of digits; else XCNORM_DATA")
    given = parser.parse_args()
    found = measure(given.device, given.data, 3 if given.quick else 5)
    write(given.out, found)
    missing = f" (without {', '.join(found['missing'])})" if found["missing"] else ""
    memory = found["peak_memory_mib"]
    peak = f", peak memory of the process {memory:.0f} MiB" if memory else ""
    print(f"loading {found['loaded']}{missing}: {found['loading_seconds']:.2f} s{peak}")
    print(
        f"a batch of {BATCH} CIFAR-10 images: {found['batch_milliseconds']:.2f} ms; a training step of wrn16_4: "
        f"{found['step_milliseconds']:.2f} ms; ratio {found['batch_to_step']:.3f}"
    )


if __name__ == "__main__":
    main()
