"""Augmentations: random views of a batch, on top of any method.

An augmentation stands in an experiment's ``method.augment``, beside the method that learns from its views; or in
``method.name``, where that method is ERM.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from xcnorm.errors import UserError, unknown_name
from xcnorm.methods.method import METHODS, Method

_LEAST = 1e-7  # of a mean probability, before its logarithm


@dataclass
class Augmentation(Method):
    """What a method sees the images through. Subclasses are registered like methods.

    Attributes:
        consistency: The weight of the `disagreement` between the answers to several views.
    """

    consistency: float = 0.0

    capturable = True

    def views_of(self, images: Tensor, generator: torch.Generator) -> list[Tensor]:
        """What is seen in place of a batch: one view to learn from, and more where their answers must agree."""
        raise NotImplementedError


def find_augmentation(name: str) -> type[Augmentation]:
    """A method by name that can stand beside another one.

    Raises:
        UserError: There is none of that name.
    """
    known = {known: method for known, method in METHODS.items() if issubclass(method, Augmentation)}
    if name not in known:
        raise UserError(unknown_name("augmentation", name, known))
    return known[name]


def disagreement(logits: list[Tensor]) -> Tensor:
    """The mean divergence of several answers from their mean, KL(answer || mean), averaged over images."""
    logs = [F.log_softmax(answer, 1) for answer in logits]
    mean = torch.stack(logs).exp().mean(0).clamp_min(_LEAST).log()
    return torch.stack([(log.exp() * (log - mean)).sum(1).mean() for log in logs]).mean()
