"""RandConv: look at each batch through a convolution with fresh random weights (Xu et al., ICLR 2021).

Shapes survive a random convolution with a small kernel, textures do not; so the network learns shapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import torch
import torch.nn.functional as F
from torch import Tensor

from xcnorm.errors import UserError
from xcnorm.methods.augmentation import Augmentation, grouped
from xcnorm.methods.method import Numbers, register_method


@register_method("randconv")
@dataclass
class RandConv(Augmentation):
    """Random convolutions, with a loss that asks three views of an image for one answer.

    Attributes:
        kernels: The sizes a kernel may have; one is chosen for each view.
        mix: Whether a view is mixed with the image in a random proportion (RC_mix), or taken as it is (RC_img).
        identity: The probability that a view is the image itself; the paper has 0.5 without `mix` and 0 with it.
        consistency: The weight of the consistency loss; the paper has 5 without `mix` and 10 with it. At 0 there is
            one view.
        views: ``"paper"``: all three views are made from the image. ``"released"``: the second and third are made from
            the first, as the published program does it.
    """

    kernels: tuple[int, ...] = (1, 3, 5, 7)
    mix: bool = True
    identity: float = 0.0
    consistency: float = 10.0
    views: str = "paper"

    cost = 3.0
    neutral = {"identity": 1.0, "consistency": 0.0}  # noqa: RUF012 - a constant of the class

    def validate(self) -> None:
        """Look at the values of the settings."""
        if not self.kernels or any(type(size) is not int or size < 1 or size % 2 == 0 for size in self.kernels):
            raise UserError(f"kernels of method randconv must be odd numbers, not {self.kernels!r}")
        if not 0 <= self.identity <= 1:
            raise UserError(f"identity of method randconv is a probability, not {self.identity!r}")
        if self.consistency < 0:
            raise UserError(f"consistency of method randconv must be 0 or more, not {self.consistency!r}")
        if self.views not in ("paper", "released"):
            raise UserError(f"views of method randconv must be 'paper' or 'released', not {self.views!r}")

    def draw_numbers(self, shape: torch.Size, generator: torch.Generator) -> Numbers:
        """For each view a kernel, its size, and the view's share."""
        views = 3 if self.consistency else 1
        return tuple(chain.from_iterable(self.draw_view(shape, generator) for _ in range(views)))

    def draw_view(self, shape: torch.Size, generator: torch.Generator) -> Numbers:
        """A kernel with zeros around it, ``(1, C, C, K, K)``, its size, and its share of the view, ``(1,)``."""
        channels, largest = shape[1], max(self.kernels)
        if torch.rand((), generator=generator) < self.identity:
            return torch.zeros(1, channels, channels, largest, largest), torch.ones(1).long(), torch.zeros(1)
        size = self.kernels[int(torch.randint(len(self.kernels), (), generator=generator))]
        weight = torch.randn(1, channels, channels, size, size, generator=generator) / (channels * size * size) ** 0.5
        share = torch.rand(1, generator=generator) if self.mix else torch.ones(1)
        return F.pad(weight, ((largest - size) // 2,) * 4), torch.tensor([size]), share

    def views_with(self, images: Tensor, *numbers: Tensor) -> list[Tensor]:
        """What is seen in place of a batch: one view to learn from, and two more where their answers must agree."""
        drawn, *others = grouped(numbers, 3)
        first = self.view(images, *drawn)
        base = first if self.views == "released" else images
        return [first, *(self.view(base, *each) for each in others)]

    def view(self, images: Tensor, weight: Tensor, size: Tensor, share: Tensor) -> Tensor:
        """Each batch through one random convolution, the same for all its images."""
        batches = images.unflatten(0, (len(size), -1))
        seen = torch.empty_like(batches)
        for each in size.unique().tolist():
            own, edge = (size == each).nonzero()[:, 0], (weight.shape[-1] - each) // 2
            place = own.to(images.device)
            kernels = weight[own, :, :, edge : edge + each, edge : edge + each]
            seen[place] = convolved(batches[place], kernels.to(images))
        shares = share.view(-1, 1, 1, 1, 1).to(images)
        return (shares * seen + (1 - shares) * batches).flatten(0, 1)


def convolved(batches: Tensor, weights: Tensor) -> Tensor:
    """Each batch through a convolution of its own, with zeros beyond the edge.

    Args:
        batches: ``(B, N, C, H, W)``.
        weights: ``(B, O, C, K, K)``.
    """
    beside = batches.transpose(0, 1).flatten(1, 2)
    seen = F.conv2d(beside, weights.flatten(0, 1), padding=weights.shape[-1] // 2, groups=len(batches))
    return seen.unflatten(1, (len(batches), -1)).transpose(0, 1)
