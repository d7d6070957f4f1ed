"""Mixtures of pictures with chains of operations on them: what AugMix and PRIME have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from xcnorm.methods.augmentation import Augmentation

_DEEPEST = 3  # operations in a chain, where their number is drawn
_TINY = 1e-300  # keeps a sum of shares away from zero

Draw = Callable[[Callable[[int], Tensor]], Tensor]
"""Takes a function from a number of rows to random numbers, and gives one row for each picture; still on the CPU."""


@dataclass
class Mixtures(Augmentation):
    """Learn from the images, and give the same answer to them and to two mixtures of each.

    Attributes:
        chains: How many chains of operations are mixed; at 0 nothing is, and nothing is left of the method.
        depth: How many operations a chain has; -1 draws 1, 2 or 3 for each.
        alpha: The concentration of the weights: Dirichlet over the chains, Beta between image and chains.
        consistency: The weight of the consistency loss; at 0 one mixture is learned from, and nothing else.
    """

    chains: int = 3
    depth: int = -1
    alpha: float = 1.0
    consistency: float = 12.0

    cost = 3.0
    neutral = {"chains": 0}  # noqa: RUF012 - a constant of the class

    def validate(self) -> None:
        """Look at the values of the settings."""
        if self.chains < 0:
            raise self.refuse("chains", "0 or more")
        if self.depth != -1 and self.depth < 1:
            raise self.refuse("depth", "-1, or 1 or more")
        if self.alpha <= 0:
            raise self.refuse("alpha", "more than 0")
        if self.consistency < 0:
            raise self.refuse("consistency", "0 or more")

    def views_of(self, images: Tensor, generator: torch.Generator) -> list[Tensor]:
        """The images and two mixtures; without consistency one mixture alone."""
        if not self.chains:
            return [images]
        if not self.consistency:
            return self.mixtures(images, 1, generator)
        return [images, *self.mixtures(images, 2, generator)]

    def mixtures(self, images: Tensor, count: int, generator: torch.Generator) -> list[Tensor]:
        """So many mixtures of each image, with chains of their own."""
        pictures, each = self.pictures(images), count * self.chains

        def draw(rows: Callable[[int], Tensor]) -> Tensor:
            return self.each(images, lambda number: rows(number * each).view(number, each, -1)).flatten(0, 1)

        copies = pictures.repeat_interleave(each, 0)
        deepest = _DEEPEST if self.depth == -1 else self.depth
        depths = torch.full((len(copies),), self.depth)
        if self.depth == -1:
            depths = draw(lambda rows: torch.randint(1, _DEEPEST + 1, (rows,), generator=generator))[:, 0]
        for turn in range(deepest):
            copies = self.operate(copies, depths > turn, draw, generator)
        shares, weight = self.weights(images, count, generator)
        copies = copies.reshape(len(images), count, self.chains, *pictures.shape[1:])
        mixed = torch.einsum("nvk, nvkchw -> nvchw", shares, copies)
        mixed = torch.lerp(pictures[:, None], mixed, weight[..., None, None, None])
        return [self.inputs(view) for view in mixed.unbind(1)]

    def weights(self, images: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The chains' shares, ``(N, count, chains)``, and how much of all of them is in a mixture, ``(N, count)``."""
        sizes = (self.chains, 2)

        def gammas(number: int) -> Tensor:
            alpha = torch.full((number, count, sum(sizes)), self.alpha, dtype=torch.float64)
            return torch._standard_gamma(alpha, generator=generator).clamp_min(_TINY)

        chains, ends = self.each(images, gammas).split(sizes, 2)
        shares, weight = chains / chains.sum(2, keepdim=True), ends[..., 0] / ends.sum(2)
        return shares.to(images), weight.to(images)

    def operate(self, copies: Tensor, active: Tensor, draw: Draw, generator: torch.Generator) -> Tensor:
        """Each picture through a random operation.

        Args:
            copies: Values from 0 to 1, ``(N, C, H, W)``.
            active: Which of them are not to stay as they are, ``(N,)``, on the CPU.
            draw: Gets random numbers for each of them.
            generator: Where they come from.
        """
        raise NotImplementedError
