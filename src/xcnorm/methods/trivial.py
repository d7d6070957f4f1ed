"""TrivialAugment: one random operation of random strength on each image (Müller and Hutter, ICCV 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from xcnorm.methods import operations
from xcnorm.methods.augmentation import Augmentation
from xcnorm.methods.method import register_method

_LEVELS = 31
_ROUNDING = 1e-3  # an amount may lie above a whole number by rounding alone


class _Range(NamedTuple):
    """Of an operation's amount: at the lowest level, at the highest, and where nothing changes."""

    operation: operations.Operation
    lowest: float = 0.0
    highest: float = 0.0
    still: float = 0.0
    either_way: bool = False
    whole: bool = False


_SPACE = (  # the publication's "wide" one
    _Range(lambda pictures, _: pictures),
    _Range(operations.autocontrast),
    _Range(operations.equalize),
    _Range(operations.posterize, 8, 2, 8, whole=True),
    _Range(operations.solarize, 256, 0, 256, whole=True),
    _Range(operations.brightness, 0.01, 2, 1),
    _Range(operations.contrast, 0.01, 2, 1),
    _Range(operations.saturation, 0.01, 2, 1),
    _Range(operations.sharpness, 0.01, 2, 1),
    _Range(operations.rotate, 0, 135, either_way=True),
    _Range(operations.shear_x, 0, 0.99, either_way=True),
    _Range(operations.shear_y, 0, 0.99, either_way=True),
    _Range(operations.translate_x, 0, 32, either_way=True),
    _Range(operations.translate_y, 0, 32, either_way=True),
)
_OPERATIONS = {number: each.operation for number, each in enumerate(_SPACE)}


@register_method("trivial")
@dataclass
class TrivialAugment(Augmentation):
    """One operation on each image, of colour or of geometry, all equally likely, as are all strengths.

    Attributes:
        strength: The share of the published amounts, from 0, which leaves nothing of the method, to 1.
        consistency: The weight of a consistency loss between two views; at 0 there is one.
    """

    strength: float = 1.0
    consistency: float = 0.0

    neutral = {"strength": 0.0}  # noqa: RUF012 - a constant of the class

    def validate(self) -> None:
        """Look at the values of the settings."""
        if not 0 <= self.strength <= 1:
            raise self.refuse("strength", "from 0 to 1")
        if self.consistency < 0:
            raise self.refuse("consistency", "0 or more")

    def views_of(self, images: Tensor, generator: torch.Generator) -> list[Tensor]:
        """One view to learn from, and another where their answers must agree."""
        if not self.strength:
            return [images]
        return [self.view(images, generator) for _ in range(2 if self.consistency else 1)]

    def view(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Each image through one operation."""
        numbers = self.each(images, lambda count: self.choose(count, generator))
        chosen, amounts = numbers.unbind(1)
        return self.inputs(operations.apply_each(self.pictures(images), _OPERATIONS, chosen.long(), amounts))

    def choose(self, count: int, generator: torch.Generator) -> Tensor:
        """Operations by number, and their amounts, ``(count, 2)``."""
        chosen = torch.randint(len(_SPACE), (count,), generator=generator)
        level = torch.randint(_LEVELS, (count,), generator=generator) / (_LEVELS - 1)
        side = 2 * torch.randint(2, (count,), generator=generator) - 1
        ranges = torch.tensor([each[1:] for each in _SPACE])[chosen]
        lowest, highest, still, either_way, whole = ranges.unbind(1)
        amount = torch.lerp(lowest, highest, level) * side.where(either_way > 0, 1)
        amount = torch.lerp(still, amount, self.strength)
        return torch.stack([chosen, (amount - _ROUNDING).ceil().where(whole > 0, amount)], 1)
