"""Trainings of every method that take a moment: embedded digits, few of them, and a tiny network."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec

import torch
from torch import nn

from tests.engine import small
from xcnorm.data import Benchmark, Domain, load
from xcnorm.data.domain import Targets
from xcnorm.engine import Trainer, World
from xcnorm.methods import find_method


def settings(method: str) -> dict[str, object]:
    """With which all that a method does happens in a dozen steps: `SMALL` in the method's own tests."""
    name = f"tests.methods.test_{method}"
    return getattr(import_module(name), "SMALL", {}) if find_spec(name) else {}


@cache
def benchmark() -> Benchmark:
    digits = load("digits-mini")
    few = Domain("few", digits.train.images[:96], digits.train.labels[:96])
    return Benchmark(digits.card, digits.title, digits.classes, few, few, Targets({}))


def trainer(
    method: str, *, neutral: bool = False, device: torch.device = small.ALONE.device, **changes: object
) -> Trainer:
    """Ready for its first step; without the dropout, which draws from torch's own generator."""
    options = find_method(method).neutral if neutral else settings(method)
    experiment = small.experiment(
        method__name=method,
        method__options={**options},
        schedule={"iterations": 40, "batch": 16, "shape": "constant", "warmup": 0.0},
        optimiser__learning_rate=3e-3,
        **changes,
    )
    made = Trainer(experiment, benchmark(), World(0, 1, device))
    for module in made.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return made


def losses(trainer: Trainer, steps: int) -> list[float]:
    """Of so many steps, and of the work before them."""
    found: list[float] = []
    while len(found) < steps:
        loss = trainer.advance()
        if loss is not None:
            found.append(loss.item())
    return found


def weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
