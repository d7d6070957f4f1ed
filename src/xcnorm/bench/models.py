"""What our networks cost beside the plain ones, in training and in inference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xcnorm.bench.ahead import compile_ahead
from xcnorm.bench.shapes import NETWORKS, batch_size, shapes_of
from xcnorm.bench.sides import OURS, PLAIN, compare, gate
from xcnorm.bench.summary import CPU_BARS, Bar, brief, judge
from xcnorm.bench.timing import rotating_inputs, settings
from xcnorm.environment import environment
from xcnorm.models import create_model

MEASURED = ("wrn16_4", "digits_cnn", "resnet18")
QUICK = ("wrn16_4", "digits_cnn")
BARS = (Bar("cuda", "both", "graph", {"xcnorm": 1.3, "r_xcnorm": 2.0}, case="wrn16_4"), *CPU_BARS)

_CLASSES = 10


class _Objective(nn.Module):
    """In training mode a network's loss, so that a step of one is timed like a step of a layer; else its logits."""

    labels: Tensor

    def __init__(self, network: nn.Module, labels: Tensor) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("labels", labels)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.network(images)
        return F.cross_entropy(logits, self.labels) if self.training else logits


def measure(
    device: str,
    networks: Sequence[str],
    precisions: Sequence[str],
    modes: Sequence[str],
    turns: int,
    threads: int,
    channels_last: bool,
    done: Callable[[str], None],
    keep: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """Measure networks; the arguments are those of `xcnorm.bench.layers.measure`.

    A training step is forward, cross-entropy and backward. It has no optimiser, whose work is the same on all sides
    and would only bring their ratios closer to 1.
    """
    rows: list[dict[str, Any]] = []
    with settings(threads, channels_last=channels_last):
        result = {
            "subject": "models",
            "device": device,
            "environment": environment(device),
            "precisions": list(precisions),
            "modes": list(modes),
            "turns": turns,
            "channels_last": channels_last or device == "cuda",
            "cases": {_case(network, device): {"images": batch_size(network, device)} for network in networks},
            "rows": rows,
        }
        if device == "cuda":
            compile_ahead(shapes_of(networks, device), (), precisions, done)
        for precision in precisions:
            for network in networks:
                rows += (measured := _measure(network, device, precision, modes, turns))
                done(f"{precision} {_case(network, device)}: {brief(measured, precision, modes[0])}")
                keep(result)
    return result | {"bars": judge(result, BARS)}


def _measure(network: str, device: str, precision: str, modes: Sequence[str], turns: int) -> list[dict[str, Any]]:
    images, pixels = batch_size(network, device), NETWORKS[network][1]
    labels = torch.arange(images) % _CLASSES

    def build(side: str) -> nn.Module:
        return _Objective(create_model(network, **OURS.get(side, {}), num_classes=_CLASSES), labels)

    shapes = shapes_of([network], device)
    gates = {side: _worst(gate(side, shape, precision, device) for shape in shapes) for side in OURS}
    inputs = rotating_inputs((images, 3, pixels, pixels), precision, device, gradient=False)
    return compare(_case(network, device), [PLAIN, *OURS], gates, build, inputs, precision, modes, turns)


def _worst(gates: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Of a network's layers: one that is red if there is any, else the one with the largest error."""
    return min(gates, key=lambda each: (each["passed"], -each["output"]))


def _case(network: str, device: str) -> str:
    return f"{network}, {NETWORKS[network][1]} px, batch {batch_size(network, device)}"
