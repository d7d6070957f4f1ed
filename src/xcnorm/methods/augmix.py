"""AugMix: mix chains of simple operations, and ask all mixtures for one answer (Hendrycks et al., ICLR 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from xcnorm.methods import operations
from xcnorm.methods.method import Numbers, register_method
from xcnorm.methods.mixtures import Mixtures

_WEAKEST = 0.1  # the lowest level of an operation
_STRONGEST = 10
# None of the operations that the test corruptions are made of.
_OPERATIONS = dict(
    enumerate(
        (
            operations.autocontrast,
            operations.equalize,
            operations.posterize,
            operations.solarize,
            operations.rotate,
            operations.shear_x,
            operations.shear_y,
            operations.translate_x,
            operations.translate_y,
        )
    )
)


@register_method("augmix")
@dataclass
class AugMix(Mixtures):
    """Mixtures of chains of Pillow's operations.

    Attributes:
        severity: The highest level of an operation, of 10; each is drawn from 0.1 on.
    """

    severity: float = 3.0

    def validate(self) -> None:
        """Look at the values of the settings."""
        super().validate()
        if not _WEAKEST <= self.severity <= _STRONGEST:
            raise self.refuse("severity", f"from {_WEAKEST} to {_STRONGEST}")

    def draw_turn(self, shape: torch.Size, copies: int, generator: torch.Generator) -> Numbers:
        """Which operation, ``(N, copies)``, and its level and side, ``(N, copies, 2)``."""
        return (
            self.each(shape, lambda count: torch.randint(len(_OPERATIONS), (count, copies), generator=generator)),
            self.each(shape, lambda count: torch.rand(count, copies, 2, generator=generator)),
        )

    def operate(self, copies: Tensor, active: Tensor, *numbers: Tensor) -> Tensor:
        """Each picture through one of the operations, at a level of its own."""
        chosen, rest = (each.flatten(0, 1) for each in numbers)
        amounts = self.amounts(copies.shape[2], copies.shape[3], chosen, rest)
        return operations.apply_each(copies, _OPERATIONS, chosen.where(active, -1), amounts)

    def amounts(self, height: int, width: int, chosen: Tensor, numbers: Tensor) -> Tensor:
        """Of the chosen operations, ``(N,)``.

        Args:
            height: Of the pictures.
            width: Of the pictures.
            chosen: Operations by number, ``(N,)``.
            numbers: From 0 to 1, for a level and a side, ``(N, 2)``.
        """
        level = (_WEAKEST + (self.severity - _WEAKEST) * numbers[:, 0]) / _STRONGEST
        side = torch.where(numbers[:, 1] < 0.5, -1, 1)
        none = torch.zeros_like(level)
        shear = side * level * 0.3
        whole = [4 - (level * 4).floor(), 256 - (level * 256).floor()]  # bits, and a threshold
        shifts = [side * (level * scale).floor() for scale in (30, width / 3, height / 3)]  # degrees, and pixels
        amounts = torch.stack([none, none, *whole, shifts[0], shear, shear, *shifts[1:]], 1)
        return amounts.gather(1, chosen[:, None])[:, 0]
