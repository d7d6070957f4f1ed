"""The engine's cost: training steps of digits_cnn through it, beside a loop written by hand.

python -m benchmarks.engine --device cuda
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.results_file import add_options, write
from xcnorm.data import Benchmark, Domain, Sampler, card, transforms
from xcnorm.data.domain import Targets
from xcnorm.engine import Experiment, Trainer, World, make_experiment, seeding
from xcnorm.engine.networks import build_model
from xcnorm.environment import environment

BATCH = 128
LIMITS = {"cpu": 1.03, "cuda": 1.10}
"""The ratio that each device is allowed."""


def measure(device: str, steps: int, repeats: int) -> dict[str, Any]:
    """Time training steps of digits_cnn through the engine and through a loop by hand, turn by turn.

    Both train the same weights on the same batches; that they end with the same loss is checked.

    Args:
        device: ``"cpu"`` or ``"cuda"``.
        steps: Training steps in a turn.
        repeats: Turns of each; their medians count. The ratio is that of turns next to each other, because what else
            a machine does changes from one second to the next.
    """
    experiment = make_experiment(
        {
            "benchmark": "digits-mini",
            "model": {"name": "digits_cnn"},
            "optimiser": {"name": "adamw", "learning_rate": 1e-3},
            "schedule": {"iterations": steps * (repeats + 1), "batch": BATCH, "shape": "constant", "warmup": 0.0},
        }
    )
    benchmark = noise()
    trainer = Trainer(experiment, benchmark, World(0, 1, torch.device(device)))
    loops: dict[str, Callable[[], torch.Tensor | None]] = {
        "engine": trainer.advance,
        "by_hand": _by_hand(experiment, benchmark, torch.device(device)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in loops}
    losses: dict[str, float] = {}
    for _ in range(repeats + 1):
        for name, step in loops.items():
            clock = time.perf_counter()
            for _ in range(steps):
                loss = step()
            assert loss is not None  # ERM has nothing to do between steps
            losses[name] = loss.item()  # also waits for the device
            seconds[name].append((time.perf_counter() - clock) / steps)
    engine, by_hand = (turns[1:] for turns in seconds.values())  # the first turn warms up
    return {
        "environment": environment(device),
        "batch": BATCH,
        "steps": steps,
        "repeats": repeats,
        "engine_milliseconds": 1e3 * statistics.median(engine),
        "by_hand_milliseconds": 1e3 * statistics.median(by_hand),
        "ratio": statistics.median(one / other for one, other in zip(engine, by_hand, strict=True)),
        "limit": LIMITS[device],
        "losses": losses,
    }


def noise() -> Benchmark:
    """As many images as digits-mini has; what they show does not matter here."""
    digits = card("digits-mini")
    images = torch.randint(0, 256, (4000, 1, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    source = Domain("noise", images, torch.arange(len(images)) % len(digits.classes))
    return Benchmark(digits, digits.title, digits.classes, source, source, Targets({}))


def _by_hand(experiment: Experiment, benchmark: Benchmark, device: torch.device) -> Callable[[], torch.Tensor]:
    """A training step as one would write it in a notebook."""
    model = build_model(experiment, benchmark, device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0, fused=True)
    images, labels = benchmark.train.images.to(device), benchmark.train.labels.to(device)
    order = Sampler(len(labels), BATCH, seed=seeding.derive(experiment.seed, "order"))

    def step() -> torch.Tensor:
        index = next(order).to(device)
        inputs = transforms.normalise(transforms.grey_to_rgb(images[index]), 0.5, 0.5)
        optimiser.zero_grad()
        loss = F.cross_entropy(model(inputs), labels[index])
        loss.backward()
        optimiser.step()
        return loss.detach()

    return step


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    given = parser.parse_args(arguments)
    found = measure(given.device, 1 if given.device == "cpu" else 50, 5 if given.quick else 101)
    write(given.out, found)
    print(
        f"a training step of digits_cnn on {given.device}, batch {BATCH}: {found['engine_milliseconds']:.2f} ms "
        f"through the engine, {found['by_hand_milliseconds']:.2f} ms by hand; ratio {found['ratio']:.3f} "
        f"(at most {found['limit']:.2f} is allowed)"
    )


if __name__ == "__main__":
    main()
