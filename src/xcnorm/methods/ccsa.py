"""CCSA: pull pairs of one class together, push other pairs apart up to a margin (Motiian et al., ICCV 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from xcnorm.methods.method import register_method
from xcnorm.methods.two_streams import TwoStreams

_NEGATIVES = 3  # pairs of two classes for each pair of one
_LEAST = 1e-8  # of a squared distance, before its root


@register_method("ccsa")
@dataclass
class CCSA(TwoStreams):
    """Classification and contrastive semantic alignment, of the source with itself.

    Attributes:
        weight: The weight of the contrastive loss, from 0 to 1; the cross-entropy has the rest. At 0 there is one
            stream.
        margin: The distance from which on a pair of two classes is far enough apart.
        normalise: Whether embeddings are compared at length 1.
    """

    def draw(self, images: Tensor, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """A second batch, and a number for each pair that says when its turn is to be chosen."""
        drawn = super().draw(images, labels, generator)
        if not self.weight:
            return drawn
        # In double precision no two are equal.
        turns = torch.rand(len(images), len(images), dtype=torch.float64, generator=generator)
        return *drawn, turns.to(images.device)

    def comparison(self, squares: Tensor, same: Tensor, *random: Tensor) -> Tensor:
        """The mean over all pairs of one class and three times as many of two: d^2, or max(0, margin - d)^2."""
        (turns,) = random
        turns = turns.masked_fill(same, torch.inf)
        wanted = _NEGATIVES * same.sum()  # the first so many; all, where there are fewer
        end = turns.flatten().sort().values.gather(0, wanted.clamp_max(same.numel() - 1).view(1))
        different = turns < end
        distance = squares.clamp_min(_LEAST).sqrt()
        losses = torch.where(same, distance, (self.margin - distance).clamp_min(0)).square()
        chosen = same | different
        return (losses * chosen).sum() / chosen.sum().clamp_min(1)
