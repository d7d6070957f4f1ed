"""ME-ADA: ADA whose images also make the network unsure.

Zhao et al., Maximum-Entropy Adversarial Data Augmentation for Improved Generalization and Robustness, NeurIPS 2020.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from xcnorm.errors import UserError
from xcnorm.methods.ascent import Ascent
from xcnorm.methods.method import register_method


@register_method("me_ada")
@dataclass
class MEADA(Ascent):
    """ADA with a bonus for the entropy of the answers, and the whole set perturbed in every phase, so that it doubles.

    Attributes:
        eta: The weight of the entropy.
        clamp: Whether added images are cut to the range of an image and kept as bytes.
    """

    eta: float = 10.0
    clamp: bool = True

    def validate(self) -> None:
        """Look at the values of the settings."""
        super().validate()
        if self.eta < 0:
            raise UserError(f"eta of method me_ada must be 0 or more, not {self.eta!r}")

    def bonus(self, inputs: Tensor, images: Tensor, logits: Tensor) -> Tensor:
        """The entropy of the answers."""
        logs = logits.log_softmax(1)
        return -self.eta * (logs.exp() * logs).sum()
