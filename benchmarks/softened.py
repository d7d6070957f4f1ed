"""What a target loses on its way through 28 pixels: how far a copy of SVHN that was shrunk can be held against a row.

    python -m benchmarks.softened runs --data DIR --out softened.json

tests the last weights of finished Digits runs on SVHN and MNIST-M as they are, and once more shrunk to 28 pixels and
brought back to 32. MNIST-M comes in 32 pixels, so the loss there is what such a copy costs the first time; the 28-pixel
copy of SVHN has had that behind it already, and shows what a second time costs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from xcnorm import data
from xcnorm.data import Benchmark
from xcnorm.data.transforms import resize
from xcnorm.engine import world
from xcnorm.engine.networks import build_model
from xcnorm.engine.precision import precision
from xcnorm.engine.runs import RunFolder
from xcnorm.engine.testing import predict
from xcnorm.environment import environment
from xcnorm.metrics import score
from xcnorm.report.runs import find_runs

TARGETS = ("svhn", "mnist_m")


def measure(folder: RunFolder, benchmark: Benchmark, device: torch.device) -> Mapping[str, tuple[float, float]]:
    """Accuracy on each target in percent, as it is and softened."""
    experiment = folder.experiment()
    model = build_model(experiment, benchmark, device)
    model.load_state_dict(folder.weights("last"))

    def accuracy(images: Tensor, labels: Tensor) -> float:
        return 100 * (score(predict(model, images, experiment), labels)["accuracy"] or 0.0)

    found = {}
    with precision(experiment.run.precision):
        for name in TARGETS:
            images, labels = benchmark.targets[name].images, benchmark.targets[name].labels
            softened = resize(resize(images, 28), 32)
            found[name] = accuracy(images, labels), accuracy(softened, labels)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--data", type=Path, help="folder of the data; else XCNORM_DATA")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    given = parser.parse_args()
    results: dict[str, Any] = {}
    benchmark = data.load("digits", given.data)
    with world(given.device) as here:
        device = here.device
    for run in find_runs(given.runs).finished:
        found = measure(RunFolder(run.folder), benchmark, device)
        cells = [f"{name} {before:.1f} -> {after:.1f}" for name, (before, after) in found.items()]
        print(f"{run.folder}: " + ", ".join(cells), flush=True)
        results[str(run.folder.relative_to(given.runs))] = {
            name: [round(value, 1) for value in pair] for name, pair in found.items()
        }
    if given.out is not None:
        result = {"environment": environment(device.type), "runs": results}
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
