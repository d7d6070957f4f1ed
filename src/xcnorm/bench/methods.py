"""What a training step of each method costs beside one of ERM, and what it does between steps."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from xcnorm.bench.engine import noise
from xcnorm.engine import Trainer, World, load_preset
from xcnorm.environment import environment
from xcnorm.methods import find_method

_STEPS = {"cpu": 1, "cuda": 20}  # in a turn
_BEFORE = 60  # steps after which a small experiment has done whatever it does between steps


def measure(device: str, methods: Sequence[str], turns: int, done: Callable[[str], None]) -> dict[str, Any]:
    """Time steps of all methods in turns, after all that they do between steps.

    The experiments are those of the presets ``methods/NAME_mini``, on images of noise: the network of Digits, batches
    of 32, and little work between steps.

    Args:
        device: ``"cpu"`` or ``"cuda"``.
        methods: Their names.
        turns: How often each is timed. A ratio is the median of those of turns next to each other.
        done: Told in a line how it goes.
    """
    steps, names = _STEPS[device], list(dict.fromkeys(("erm", *methods)))
    length = _BEFORE + steps * (turns + 1)
    trainers, rows = {}, {}
    for name in names:
        (experiment,) = load_preset(f"methods/{name}_mini").experiments({"schedule": {"iterations": length}})
        trainer = Trainer(experiment, noise(), World(0, 1, torch.device(device)))
        rows[name] = {"pieces_of_work": 0, "seconds_of_work": 0.0, "estimate": find_method(name).cost}
        while trainer.step < _BEFORE:
            clock = time.perf_counter()
            if trainer.advance() is None:
                _wait(device)
                rows[name]["pieces_of_work"] += 1
                rows[name]["seconds_of_work"] += time.perf_counter() - clock
        trainers[name] = trainer
        done(f"{name}: {rows[name]['pieces_of_work']} pieces of work between steps")
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(turns + 1):
        for name, trainer in trainers.items():
            _wait(device)
            clock = time.perf_counter()
            for _ in range(steps):
                trainer.advance()
            _wait(device)
            seconds[name].append((time.perf_counter() - clock) / steps)
    for name, found in seconds.items():
        rows[name]["milliseconds"] = 1e3 * statistics.median(found[1:])  # the first turn warms up
        rows[name]["ratio"] = statistics.median(
            one / erm for one, erm in zip(found[1:], seconds["erm"][1:], strict=True)
        )
    return {"subject": "methods", "device": device, "environment": environment(device), "turns": turns, "rows": rows}


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
