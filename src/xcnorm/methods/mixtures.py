"""Mixtures of pictures with chains of operations on them: what AugMix and PRIME have in common."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from xcnorm.methods.augmentation import Augmentation, grouped
from xcnorm.methods.method import Numbers

_DEEPEST = 3  # operations in a chain, where their number is drawn
_TINY = 1e-300  # keeps a sum of shares away from zero


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

    def draw_numbers(self, shape: torch.Size, generator: torch.Generator) -> Numbers:
        """How deep each chain is, ``(N, copies)``; what each turn takes; and gamma numbers, ``(N, V, chains + 2)``."""
        if not self.chains:
            return ()
        views = 2 if self.consistency else 1
        copies = views * self.chains

        def depths(count: int) -> Tensor:
            if self.depth == -1:
                return torch.randint(1, _DEEPEST + 1, (count, copies), generator=generator)
            return torch.full((count, copies), self.depth)

        def gammas(count: int) -> Tensor:
            alpha = torch.full((count, views, self.chains + 2), self.alpha, dtype=torch.float64)
            return torch._standard_gamma(alpha, generator=generator).clamp_min(_TINY)

        first = self.each(shape, depths)
        turns = [each for _ in range(self._turns) for each in self.draw_turn(shape, copies, generator)]
        return first, *turns, self.each(shape, gammas)

    def views_with(self, images: Tensor, *numbers: Tensor) -> list[Tensor]:
        """The images and two mixtures; without consistency one mixture alone."""
        if not self.chains:
            return [images]
        mixtures = self.mixtures(images, *numbers)
        return [images, *mixtures] if self.consistency else mixtures

    def mixtures(self, images: Tensor, depths: Tensor, *numbers: Tensor) -> list[Tensor]:
        """Mixtures of each image, with chains of their own."""
        *turns, gammas = numbers
        pictures = self.pictures(images)
        copies = pictures.repeat_interleave(depths.shape[1], 0)
        for turn, drawn in enumerate(grouped(turns, len(turns) // self._turns)):
            copies = self.operate(copies, depths.flatten() > turn, *drawn)
        shares, weight = (each.to(images) for each in self.weights(gammas))
        copies = copies.reshape(len(images), -1, self.chains, *pictures.shape[1:])
        mixed = torch.einsum("nvk, nvkchw -> nvchw", shares, copies)
        mixed = torch.lerp(pictures[:, None], mixed, weight[..., None, None, None])
        return [self.inputs(view) for view in mixed.unbind(1)]

    def weights(self, gammas: Tensor) -> tuple[Tensor, Tensor]:
        """The chains' shares, ``(N, V, chains)``, and how much of all of them is in a mixture, ``(N, V)``."""
        chains, ends = gammas.split((self.chains, 2), 2)
        return chains / chains.sum(2, keepdim=True), ends[..., 0] / ends.sum(2)

    def draw_turn(self, shape: torch.Size, copies: int, generator: torch.Generator) -> Numbers:
        """The random numbers of an operation on each copy of each image, as `draw_numbers` gives them.

        Args:
            shape: Of the images, ``(N, C, H, W)``.
            copies: Of each image.
            generator: Where random numbers come from.
        """
        raise NotImplementedError

    def operate(self, copies: Tensor, active: Tensor, *numbers: Tensor) -> Tensor:
        """Each picture through a random operation.

        Args:
            copies: Values from 0 to 1, ``(N * copies, C, H, W)``; or those of several batches.
            active: Which of them are not to stay as they are, ``(N * copies,)``, on the CPU.
            *numbers: What `draw_turn` made for it; or for several batches, joined along the first axis.
        """
        raise NotImplementedError

    @property
    def _turns(self) -> int:
        """Operations of the longest chain."""
        return _DEEPEST if self.depth == -1 else self.depth
