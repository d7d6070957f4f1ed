"""The cost of methods: a training step of each beside one of ERM, and what it does between steps.

python -m benchmarks.method_costs --quick
python -m benchmarks.method_costs --method jigen --method ada --device cuda --out costs.json
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import Any

import torch

from benchmarks.engine import noise
from benchmarks.results_file import add_options, write
from xcnorm.engine import Trainer, World, load_preset
from xcnorm.environment import environment
from xcnorm.methods import find_method, list_methods

_STEPS = {"cpu": 1, "cuda": 20}  # in a turn
_BEFORE = 60  # steps after which a small experiment has done whatever it does between steps


def measure(device: str, methods: Sequence[str], turns: int) -> dict[str, Any]:
    """Time steps of all methods in turns, after all that they do between steps.

    The experiments are those of the presets ``methods/NAME_mini``, on images of noise: the network of Digits, batches
    of 32, and little work between steps.

    Args:
        device: ``"cpu"`` or ``"cuda"``.
        methods: Their names.
        turns: How often each is timed. A ratio is the median of those of turns next to each other.
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
        print(f"{name}: {rows[name]['pieces_of_work']} pieces of work between steps", flush=True)
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


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--method", choices=list_methods(), action="append", help="beside erm; can be repeated")
    given = parser.parse_args(arguments)
    found = measure(given.device, given.method or list_methods(), 3 if given.quick else 21)
    write(given.out, found)
    print(f"{'method':12}{'milliseconds':>14}{'times ERM':>11}{'by counting passes':>20}  between steps")
    for name, row in found["rows"].items():
        pieces, seconds = row["pieces_of_work"], row["seconds_of_work"]
        work = f"{pieces} x {1e3 * seconds / pieces:.0f} ms" if pieces else ""
        print(f"{name:12}{row['milliseconds']:14.2f}{row['ratio']:11.2f}{row['estimate']:20g}  {work}")


if __name__ == "__main__":
    main()
