"""Exported networks: how long they take in onnxruntime, as multiples of the same networks in torch on the CPU.

    python -m benchmarks.exports --out benchmarks/results/exports_cpu.json

    python -m benchmarks.exports --page docs/export.md --out benchmarks/results/exports_cpu.json

The first exports each network to ONNX, which is compared with torch there, and then times three sides in turns, each
on one thread: torch as it is, torch fused by `xcnorm.fuse`, and onnxruntime. What is counted is the processor's time,
which others on the machine disturb little. The ratio is onnxruntime's time over the shorter one of torch's; the bar for
R-XCNorm is 2. The second writes what was measured into the page.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import onnxruntime
import torch

import xcnorm
from benchmarks.places import fill
from benchmarks.results_file import write
from xcnorm.allocator import keep_freed_memory
from xcnorm.environment import environment

NETWORKS = ("wrn16_4", "digits_cnn")
LAYERS: dict[str, dict[str, Any]] = {
    "conv": {"layer": "conv"},
    "xcnorm": {"layer": "xcnorm"},
    "r_xcnorm": {"layer": "r_xcnorm"},
    "r_xcnorm paper": {"layer": "r_xcnorm", "preset": "paper"},
}
PIXELS = 32
BATCHES = (1, 8, 32)
TURNS = 9
BAR = 2.0


def measure(name: str, layer: str, turns: int) -> dict[str, Any]:
    """Milliseconds of each side for each number of images."""
    torch.manual_seed(0)
    network = xcnorm.create_model(name, **LAYERS[layer]).eval()
    fused = xcnorm.fuse(network)
    with tempfile.TemporaryDirectory() as folder:
        written = xcnorm.export_model(network, Path(folder) / "network.onnx", pixels=PIXELS)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(written.path), options, providers=["CPUExecutionProvider"])
    row: dict[str, Any] = {"difference": written.difference, "milliseconds": {}}
    for count in BATCHES:
        images = torch.rand(count, 3, PIXELS, PIXELS)
        values = images.numpy()
        sides: dict[str, Callable[[], object]] = {
            "torch": lambda images=images: network(images),  # type: ignore[misc]
            "torch fused": lambda images=images: fused(images),  # type: ignore[misc]
            "onnxruntime": lambda values=values: session.run(None, {"images": values}),  # type: ignore[misc]
        }
        seconds: dict[str, list[float]] = {side: [] for side in sides}
        with torch.no_grad():
            for run in sides.values():
                run()
            for _ in range(turns):
                for side, run in sides.items():
                    start = time.process_time()
                    run()
                    seconds[side].append(time.process_time() - start)
        row["milliseconds"][count] = {side: round(1e3 * median(found), 3) for side, found in seconds.items()}
    row["ratio"] = {count: round(ratio(found), 3) for count, found in row["milliseconds"].items()}
    return row


def ratio(milliseconds: dict[str, float]) -> float:
    """Of onnxruntime's time to the shorter one of torch's."""
    return milliseconds["onnxruntime"] / min(milliseconds["torch"], milliseconds["torch fused"])


def table(result: dict[str, Any]) -> str:
    """What was measured, in Markdown."""
    lines = ["| network | images | torch | torch, fused | onnxruntime | ratio |", "|---|---:|---:|---:|---:|---:|"]
    for name, row in result["networks"].items():
        for count, times in row["milliseconds"].items():
            told = " | ".join(f"{taken:.1f} ms" for taken in times.values())
            lines.append(f"| {name} | {count} | {told} | {row['ratio'][count]:.2f} |")
    means = ", ".join(f"{layer} {mean:.2f}" for layer, mean in result["geometric_mean"].items())
    where = result["environment"]
    machine = f"{where['device']}, one thread, torch {where['torch']}, onnxruntime {where['onnxruntime']}"
    lines += ["", f"Geometric means: {means}. {machine}, commit {where['commit']}."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer timings, for a first look")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--page", type=Path, help="page to write what is in that file into, without measuring anew")
    given = parser.parse_args()
    if given.page is not None:
        fill(given.page, table(json.loads(given.out.read_text(encoding="utf-8"))), given.out.stem)
        return
    keep_freed_memory()
    torch.set_num_threads(1)
    where = environment("cpu") | {"onnxruntime": onnxruntime.__version__}
    found: dict[str, dict[str, Any]] = {}
    for name in NETWORKS:
        for layer in LAYERS:
            row = found[f"{name}, {layer}"] = measure(name, layer, 3 if given.quick else TURNS)
            for count, times in row["milliseconds"].items():
                told = ", ".join(f"{side} {taken:.2f} ms" for side, taken in times.items())
                print(f"{name:12} {layer:16} {count:3} images: {told}; {row['ratio'][count]:.2f}x", flush=True)
    means = {
        layer: round(geometric_mean(r for name in NETWORKS for r in found[f"{name}, {layer}"]["ratio"].values()), 3)
        for layer in LAYERS
    }
    for layer, mean in means.items():
        print(f"{layer:16} geometric mean {mean:.2f}x{'' if 'r_' not in layer else f', the bar is {BAR:.0f}x'}")
    write(given.out, {"environment": where, "networks": found, "geometric_mean": means, "bar": BAR})


if __name__ == "__main__":
    main()
