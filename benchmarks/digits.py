"""Which reading of the operator works: the Digits network trained on MNIST in many variants, tested on other digits.

The paper leaves a good deal open; this is how the library's defaults were chosen. It needs the data of the benchmark
``digits`` (SYN may be missing) in a folder given by ``--data`` or ``XCNORM_DATA``:

    python -m benchmarks.digits --data DIR --seeds 3 --device cuda --out results.json

First 10,000 MNIST images, batch 128, AdamW 1e-3 with warm-up and cosine, 2,500 iterations, inputs (x - 0.5) / 0.5 at
32 pixels, last iterate, whole target sets.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xcnorm import data
from xcnorm.data import Domain, transforms
from xcnorm.environment import environment
from xcnorm.models import create_model

TARGETS = ("svhn", "mnist_m", "usps")

INSTANCE = {"norm": "instance"}
PAPER = {"preset": "paper"}
SIGNED = {"layer": "r_xcnorm", "robust": "welsch_signed"}
INFLUENCE = {"layer": "r_xcnorm", "robust": "welsch_influence"}

VARIANTS: dict[str, dict[str, Any]] = {
    "conv": {"layer": "conv"},
    "conv, batch norm": {"layer": "conv", "norm": "batch"},
    "conv, instance norm": {"layer": "conv", **INSTANCE},
    "conv, abs first": {"layer": "conv", "rectify_first": "abs"},
    "conv, instance norm, abs first": {"layer": "conv", **INSTANCE, "rectify_first": "abs"},
    "xcnorm paper": {"layer": "xcnorm", **PAPER},
    "xcnorm paper, mask": {"layer": "xcnorm", **PAPER, "mask": True},
    "r_xcnorm paper": {"layer": "r_xcnorm", **PAPER},
    "xcnorm": {"layer": "xcnorm"},
    "xcnorm, relu first": {"layer": "xcnorm", "rectify_first": "relu"},
    "xcnorm, batch norm": {"layer": "xcnorm", "norm": "batch"},
    "xcnorm, mask": {"layer": "xcnorm", "mask": True},
    "xcnorm, dense": {"layer": "xcnorm", "dense": "xcnorm"},
    "xcnorm, channelwise": {"layer": "xcnorm", "channelwise": True},
    "xcnorm, abs everywhere": {"layer": "xcnorm", "rectify": "abs"},
    "xcnorm, gain after": {"layer": "xcnorm", "gain": "after_norm"},
    "xcnorm, mask, gain after": {"layer": "xcnorm", "mask": True, "gain": "after_norm"},
    "xcnorm, eps 1e-4": {"layer": "xcnorm", "eps": 1e-4},
    "xcnorm, eps 1e-3": {"layer": "xcnorm", "eps": 1e-3},
    "influence, patch 3": {**INFLUENCE, "scale": "patch"},
    "influence, patch 3, mask": {**INFLUENCE, "scale": "patch", "mask": True},
    "influence, patch 2": {**INFLUENCE, "scale": "patch", "c_init": 2.0},
    "influence, patch 1.5": {**INFLUENCE, "scale": "patch", "c_init": 1.5},
    "influence, patch 3, channelwise": {**INFLUENCE, "scale": "patch", "channelwise": True},
    "influence, patch 3, gain after": {**INFLUENCE, "scale": "patch", "gain": "after_norm"},
    "influence, patch 3, mask, after": {**INFLUENCE, "scale": "patch", "mask": True, "gain": "after_norm"},
    "influence, moving average": {**INFLUENCE, "scale": "ema"},
    "influence, moving avg, after": {**INFLUENCE, "scale": "ema", "gain": "after_norm"},
    "signed, moving avg, after": {**SIGNED, "scale": "ema", "gain": "after_norm"},
    "signed, moving average": {**SIGNED, "scale": "ema"},
    "signed, moving average, mask": {**SIGNED, "scale": "ema", "mask": True},
    "signed, patch 1": {**SIGNED, "scale": "patch", "c_init": 1.0},
    "signed, patch 3": {**SIGNED, "scale": "patch"},
    "signed, patch 1, mask": {**SIGNED, "scale": "patch", "c_init": 1.0, "mask": True},
    "printed phi, moving average": {"layer": "r_xcnorm", "robust": "welsch", "scale": "ema"},
    "huber, patch 1": {"layer": "r_xcnorm", "robust": "huber", "scale": "patch", "c_init": 1.0},
    "cauchy, patch 2": {"layer": "r_xcnorm", "robust": "cauchy", "scale": "patch", "c_init": 2.0},
    "tukey, patch 4": {"layer": "r_xcnorm", "robust": "tukey", "scale": "patch", "c_init": 4.0},
}


def prepare(domain: Domain, device: str) -> tuple[Tensor, Tensor]:
    """Images in [-1, 1] as (N, 3, 32, 32), and labels."""
    images = transforms.normalise(transforms.grey_to_rgb(domain.images.to(device)), 0.5, 0.5)
    return images, domain.labels.to(device)


class Trainer:
    """Training steps of one network; on a GPU captured as one CUDA graph."""

    def __init__(self, model: nn.Module, images: Tensor, labels: Tensor, iterations: int, batch: int, seed: int):
        self.model, self.images, self.labels = model, images, labels
        self.iterations, self.batch = iterations, batch
        self.cuda = images.is_cuda
        self.rate = torch.zeros((), device=images.device)
        self.index = torch.zeros(batch, dtype=torch.int64, device=images.device)
        self.optimiser = torch.optim.AdamW(model.parameters(), lr=self.rate, weight_decay=0.0, capturable=self.cuda)
        self.generator = torch.Generator().manual_seed(seed)

    def order(self) -> Tensor:
        """Which images each step sees: one permutation after another."""
        rounds = math.ceil(self.iterations * self.batch / len(self.images))
        order = torch.cat([torch.randperm(len(self.images), generator=self.generator) for _ in range(rounds)])
        return order[: self.iterations * self.batch].view(self.iterations, self.batch).to(self.images.device)

    def step(self) -> None:
        """One step on the images of ``self.index``."""
        self.optimiser.zero_grad(set_to_none=True)
        F.cross_entropy(self.model(self.images[self.index]), self.labels[self.index]).backward()
        self.optimiser.step()

    def run(self) -> None:
        """Train: 5 % warm-up, then cosine to zero."""
        order = self.order()
        replay = self.step
        for iteration in range(self.iterations):
            progress = iteration / self.iterations
            factor = progress / 0.05 if progress < 0.05 else 0.5 * (1 + math.cos(math.pi * (progress - 0.05) / 0.95))
            self.rate.fill_(1e-3 * factor)
            self.index.copy_(order[iteration])
            if self.cuda and iteration == 3:
                replay = self.capture()
            elif self.cuda and iteration < 3:
                self.beside(self.step)
            else:
                replay()

    def beside(self, work: Any) -> None:
        """Run on a stream of its own, as a capture's warm-up must."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            work()
        torch.cuda.current_stream().wait_stream(stream)

    def capture(self) -> Any:
        """Record one step as a graph, and replay it for this iteration."""
        graph = torch.cuda.CUDAGraph()
        self.optimiser.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            self.step()
        graph.replay()
        return graph.replay


def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Percent right, in evaluation mode."""
    model.eval()
    with torch.no_grad():
        right = [model(x).argmax(1).eq(y).sum() for x, y in zip(images.split(1000), labels.split(1000), strict=True)]
    return 100 * float(torch.stack(right).sum()) / len(labels)


def main() -> None:
    """Run the variants and print a table as it grows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("XCNORM_DATA"), help="folder with the .npz files")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=2500)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS), choices=list(VARIANTS), metavar="NAME")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no new variant after this long")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("say where the data is: --data DIR, or set XCNORM_DATA")

    started = time.monotonic()
    benchmark = data.load("digits", arguments.data)
    source = prepare(benchmark.train, arguments.device)
    domains = {"mnist": prepare(benchmark.validation, arguments.device)}
    domains |= {name: prepare(benchmark.targets[name], arguments.device) for name in TARGETS}
    recipe = {"iterations": arguments.iterations, "batch": arguments.batch, "seeds": arguments.seeds}
    results: dict[str, Any] = {"environment": environment(arguments.device), "recipe": recipe, "variants": {}}
    print(f"{'variant':34}{''.join(f'{name:>15}' for name in domains)}{'mean of targets':>18}{'s/run':>8}", flush=True)
    for name in arguments.variants:
        if time.monotonic() - started > 60 * arguments.minutes:
            print(f"stopped before {name!r}: out of time", flush=True)
            break
        rows, clock = [], time.monotonic()
        for seed in range(arguments.seeds):
            torch.manual_seed(seed)
            model = create_model("digits_cnn", **VARIANTS[name]).to(arguments.device)
            Trainer(model, *source, arguments.iterations, arguments.batch, seed).run()
            rows.append({domain: accuracy(model, *test) for domain, test in domains.items()})
        seconds = (time.monotonic() - clock) / arguments.seeds
        for row in rows:
            row["targets"] = sum(row[target] for target in TARGETS) / len(TARGETS)
        results["variants"][name] = {"options": VARIANTS[name], "runs": rows, "seconds_per_run": round(seconds, 2)}
        columns = [np.array([row[column] for row in rows]) for column in rows[0]]
        cells = [f"{column.mean():8.1f} ± {column.std():3.1f}" for column in columns]
        print(f"{name:34}{''.join(f'{cell:>15}' for cell in cells)}   {seconds:8.1f}", flush=True)
        if arguments.out is not None:
            arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
