"""RandConv: look at each batch through a convolution with fresh random weights (Xu et al., ICLR 2021).

Shapes survive a random convolution with a small kernel, textures do not; so the network learns shapes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from xcnorm.errors import UserError
from xcnorm.methods.augmentation import Augmentation
from xcnorm.methods.method import register_method


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

    def views_of(self, images: Tensor, generator: torch.Generator) -> list[Tensor]:
        """What is seen in place of a batch: one view to learn from, and two more where their answers must agree."""
        first = self.view(images, generator)
        if not self.consistency:
            return [first]
        base = first if self.views == "released" else images
        return [first, self.view(base, generator), self.view(base, generator)]

    def view(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """The batch through one random convolution, the same for all its images."""
        if torch.rand((), generator=generator).item() < self.identity:
            return images
        size = self.kernels[int(torch.randint(len(self.kernels), (), generator=generator))]
        channels = images.shape[1]
        weight = torch.randn(channels, channels, size, size, generator=generator) / (channels * size * size) ** 0.5
        seen = F.conv2d(images, weight.to(images), padding=size // 2)
        if not self.mix:
            return seen
        share = torch.rand((), generator=generator).item()
        return share * seen + (1 - share) * images
