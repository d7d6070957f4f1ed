"""Experiments that take no time beyond starting a process: a handful of pictures, a few steps."""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def write_pictures(root: Path) -> Path:
    """Two domains of dark and light noise."""
    noise = np.random.default_rng(0)
    for domain, count in (("ink", 24), ("chalk", 4)):
        for label, light in (("dark", 0), ("light", 127)):
            (root / domain / label).mkdir(parents=True)
            for number in range(count):
                pixels = noise.integers(0, 128, (32, 32, 3)) + light
                Image.fromarray(pixels.astype(np.uint8)).save(root / domain / label / f"{number}.png")
    return root


def write_preset(
    path: Path, arms: Mapping[str, Mapping[str, Any]], seeds: Iterable[int] = (0,), iterations: int = 2
) -> Path:
    """A preset with these arms, each with what it sets."""
    lines = [
        'title = "Tiny"',
        f"seeds = {list(seeds)}",
        "[base]",
        'benchmark = "folder"',
        'benchmark_options = { source = "ink" }',
        'model = { name = "digits_cnn", layer = "conv" }',
        f"schedule = {{ iterations = {iterations}, batch = 16 }}",
        'run = { selection = ["last"] }',
    ]
    for label, values in arms.items():
        lines += ["[[arms]]", f'label = "{label}"', "[arms.set]"]
        lines += [f'"{key}" = {json.dumps(value)}' for key, value in values.items()]
    path.write_text("\n".join(lines))
    return path


def logged(run: Path) -> list[dict[str, Any]]:
    """The lines of a run's log that tell of a loss."""
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [line for line in lines if "loss" in line]


def wait_for(condition: Callable[[], object], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "this takes too long"
        time.sleep(0.02)
