"""Writes the answers that networks and methods must go on giving: ``python -m tests.golden.make``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tests.engine import small
from tests.methods.small import trainer
from xcnorm.methods import list_methods
from xcnorm.models import create_model, list_models, register_model
from xcnorm.models.create import MODELS
from xcnorm.nn import FORMS

HERE = Path(__file__).parent
PIXELS = 32
PRESETS = ("xcnorm", "r_xcnorm")  # forms that come as printed, too
SMALL = "digits_cnn"  # the network that is made in every form


def networks() -> Iterator[tuple[str, dict[str, Any]]]:
    """Arguments of `create_model`: every network in three forms, and one in every form."""
    for model in filter(_ships, list_models()):
        for form in FORMS if model == SMALL else ("conv", *PRESETS):
            yield f"{model} {form}", {"name": model, "layer": form}
    for form in PRESETS:
        yield f"{SMALL} {form} paper", {"name": SMALL, "layer": form, "preset": "paper"}


def _ships(model: str) -> bool:
    """Whether a network is part of the package, and not of some test."""
    return MODELS[model].build.__module__.startswith("xcnorm.")


def logits(arguments: dict[str, Any]) -> Tensor:
    """Of two images, after one batch in training mode has moved what averages there are; in float64."""
    torch.manual_seed(0)
    network = create_model(**arguments, num_classes=3).double()
    fill(network)
    images = torch.rand(3, 3, PIXELS, PIXELS, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    with torch.no_grad():
        network.train()(images)
        return network.eval()(images[:2])


def fill(network: nn.Module) -> None:
    """Weights from a generator whose numbers will never change."""
    generator = np.random.RandomState(0)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim > 1:
                values = torch.from_numpy(generator.standard_normal(parameter.shape))
                parameter.copy_(values * (2 / parameter[0].numel()) ** 0.5)


def answers(method: str) -> tuple[float, Tensor]:
    """The loss of a method's first step, and the logits of two images after it."""
    made = trainer(method)
    loss = None
    while loss is None:
        loss = made.advance()
    images, _ = made.images.take(torch.arange(2))
    with torch.no_grad():
        return float(loss), made.model.eval()(images)


def write(name: str, values: dict[str, Any]) -> None:
    lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in values.items())
    (HERE / name).write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def rounded(values: Tensor) -> list[list[float]]:
    return [[round(float(value), 9) for value in row] for row in values]


def main() -> None:
    """Write both files."""
    torch.set_num_threads(1)
    write("networks.json", {name: rounded(logits(arguments)) for name, arguments in networks()})
    register_model("tiny", hidden_dense=True)(small.tiny)
    methods = {}
    for method in list_methods():
        torch.manual_seed(0)
        loss, found = answers(method)
        methods[method] = {"loss": round(loss, 7), "logits": rounded(found)}
    write("methods.json", methods)


if __name__ == "__main__":
    main()
