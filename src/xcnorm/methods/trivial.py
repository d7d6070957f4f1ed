"""TrivialAugment: one random operation of random strength on each image (Müller and Hutter, ICCV 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from xcnorm.methods import operations
from xcnorm.methods.augmentation import Augmentation
from xcnorm.methods.method import Numbers, register_method

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

    def draw_numbers(self, shape: torch.Size, generator: torch.Generator) -> Numbers:
        """For each view an operation, a level and a side, by number, ``(N, 3)``."""
        views = (2 if self.consistency else 1) if self.strength else 0
        ends = (len(_SPACE), _LEVELS, 2)

        def draw(count: int) -> Tensor:
            return torch.stack([torch.randint(end, (count,), generator=generator) for end in ends], 1)

        return tuple(self.each(shape, draw) for _ in range(views))

    def views_with(self, images: Tensor, *numbers: Tensor) -> list[Tensor]:
        """One view to learn from, and another where their answers must agree."""
        return [self.view(images, each) for each in numbers] or [images]

    def view(self, images: Tensor, numbers: Tensor) -> Tensor:
        """Each image through one operation."""
        chosen, amounts = self.choose(numbers)
        return self.inputs(operations.apply_each(self.pictures(images), _OPERATIONS, chosen, amounts))

    def choose(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Operations by number, and their amounts, both ``(N,)``."""
        chosen, level, side = numbers.unbind(1)
        lowest, highest, still, either_way, whole = torch.tensor([each[1:] for each in _SPACE])[chosen].unbind(1)
        amount = torch.lerp(lowest, highest, level / (_LEVELS - 1)) * (2 * side - 1).where(either_way > 0, 1)
        amount = torch.lerp(still, amount, self.strength)
        return chosen, (amount - _ROUNDING).ceil().where(whole > 0, amount)
