"""AugMix: mix chains of simple operations, and ask all mixtures for one answer (Hendrycks et al., ICLR 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from xcnorm.methods import operations
from xcnorm.methods.method import register_method
from xcnorm.methods.mixtures import Draw, Mixtures

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

    def operate(self, copies: Tensor, active: Tensor, draw: Draw, generator: torch.Generator) -> Tensor:
        """Each picture through one of the operations, at a level of its own."""
        chosen, amounts = self.choose(copies.shape[2], copies.shape[3], draw, generator)
        return operations.apply_each(copies, _OPERATIONS, chosen.where(active, -1), amounts)

    def choose(self, height: int, width: int, draw: Draw, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The number of each picture's operation, and its amount, both ``(N,)``."""
        chosen = draw(lambda rows: torch.randint(len(_OPERATIONS), (rows, 1), generator=generator))
        numbers = draw(lambda rows: torch.rand(rows, 2, generator=generator))
        level = (_WEAKEST + (self.severity - _WEAKEST) * numbers[:, 0]) / _STRONGEST
        side = torch.where(numbers[:, 1] < 0.5, -1, 1)
        none = torch.zeros_like(level)
        shear = side * level * 0.3
        whole = [4 - (level * 4).floor(), 256 - (level * 256).floor()]  # bits, and a threshold
        shifts = [side * (level * scale).floor() for scale in (30, width / 3, height / 3)]  # degrees, and pixels
        amounts = torch.stack([none, none, *whole, shifts[0], shear, shear, *shifts[1:]], 1)
        return chosen[:, 0], amounts.gather(1, chosen)[:, 0]
