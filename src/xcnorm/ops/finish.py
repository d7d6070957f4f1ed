"""What follows a similarity, for backends that do both at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor

TAU_MINIMUM = 0.5
"""Of the sharpening's exponent: its slope stays usable there."""


def exponent(raw: Tensor) -> Tensor:
    """The sharpening's exponent from the parameter it is learnt as."""
    return TAU_MINIMUM + F.softplus(raw)


@dataclass(frozen=True)
class Averages:
    """Moving averages that a training step moves, for a backend that does so itself.

    Attributes:
        mean: Of the channel norm; None without one that averages, and so for variance and batches.
        variance: The same, unbiased.
        batches: How many it has seen.
        momentum: Weight of the newest batch in these.
        c: Of the robust function's scale; None if that is no average.
        c_momentum: Weight of the newest batch in c.
    """

    mean: Tensor | None
    variance: Tensor | None
    batches: Tensor | None
    momentum: float
    c: Tensor | None
    c_momentum: float


@dataclass(frozen=True)
class Finish:
    """The stages of a layer after its similarity.

    Attributes:
        rectify: ``"relu"``, ``"abs"`` or ``"none"``.
        raw_tau: What the exponent of the sharpening is learnt as, one or one per channel; None without.
        gain: One per channel; None without.
        gain_after: Whether the gain follows the channel norm.
        mask: Weight and bias of the attention mask; None without.
        statistics: What the channel norm pools: ``"batch"``, ``"instance"``, ``"given"`` (mean and variance are
            given) or ``"none"``.
        mean: The given one, per channel.
        variance: The given one, per channel.
        eps: Added to the variance.
        averages: What this step moves, for a backend that does so itself; None if it must not.
    """

    rectify: str
    raw_tau: Tensor | None
    gain: Tensor | None
    gain_after: bool
    mask: tuple[Tensor, Tensor] | None
    statistics: str
    mean: Tensor | None
    variance: Tensor | None
    eps: float
    averages: Averages | None = None

    @property
    def tau(self) -> Tensor | None:
        """Exponent of the sharpening."""
        return None if self.raw_tau is None else exponent(self.raw_tau)


class Response(NamedTuple):
    """A layer's answer.

    Attributes:
        output: ``(N, C_out, *positions)``.
        deviation: Standard deviation of the patches before phi, in any shape.
        mean: Of each channel over the batch; empty unless that was pooled.
        variance: The same.
        tracked: Whether all averages have moved.
    """

    output: Tensor
    deviation: Tensor
    mean: Tensor
    variance: Tensor
    tracked: bool = False
