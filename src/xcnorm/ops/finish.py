"""What follows a similarity, for backends that do both at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor


@dataclass(frozen=True)
class Finish:
    """The stages of a layer after its similarity.

    Attributes:
        rectify: ``"relu"``, ``"abs"`` or ``"none"``.
        tau: Exponent of the sharpening, one or one per channel; None without.
        gain: One per channel; None without.
        gain_after: Whether the gain follows the channel norm.
        mask: Weight and bias of the attention mask; None without.
        statistics: What the channel norm pools: ``"batch"``, ``"instance"``, ``"given"`` (mean and variance are
            given) or ``"none"``.
        mean: The given one, per channel.
        variance: The given one, per channel.
        eps: Added to the variance.
    """

    rectify: str
    tau: Tensor | None
    gain: Tensor | None
    gain_after: bool
    mask: tuple[Tensor, Tensor] | None
    statistics: str
    mean: Tensor | None
    variance: Tensor | None
    eps: float


class Response(NamedTuple):
    """A layer's answer.

    Attributes:
        output: ``(N, C_out, *positions)``.
        deviation: Standard deviation of the patches before phi, in any shape.
        mean: Of each channel over the batch; empty unless that was pooled.
        variance: The same.
    """

    output: Tensor
    deviation: Tensor
    mean: Tensor
    variance: Tensor
