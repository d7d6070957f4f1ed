"""Networks as cases: training steps and inference of ours beside the published ones."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xcnorm.bench.compare import Case
from xcnorm.bench.shapes import batch_of, shapes_of
from xcnorm.bench.sides import Side
from xcnorm.models import create_model

MEASURED = ("wrn16_4", "digits_cnn", "resnet18")
"""What is measured unless somebody names others."""

_CLASSES = 10


class _Objective(nn.Module):
    """In training mode a network's loss, so that a step of one is timed like a step of a layer; else its logits.

    It has no optimiser, whose work is the same on all sides and would only bring their ratios closer to 1.
    """

    labels: Tensor

    def __init__(self, network: nn.Module, images: int) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("labels", torch.arange(images) % _CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.network(images)
        return F.cross_entropy(logits, self.labels) if self.training else logits


def cases(networks: Sequence[str], device: str) -> list[Case]:
    """Some networks."""
    return [_case(network, device) for network in networks]


def _case(network: str, device: str) -> Case:
    images, pixels = batch_of(network, device)

    def build(side: Side) -> nn.Module:
        return _Objective(create_model(network, **side.options(), num_classes=_CLASSES), images)

    name = f"{network}, {pixels} px, batch {images}"
    return Case(name, shapes_of([network], device), (images, 3, pixels, pixels), False, build, {"images": images})
