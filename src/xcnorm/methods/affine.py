"""Affine: look at each image through a random affine map: turned, scaled, stretched, sheared and shifted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from xcnorm.methods.augmentation import Augmentation
from xcnorm.methods.method import Numbers, register_method
from xcnorm.methods.warping import affine_places, sampled


@register_method("affine")
@dataclass
class Affine(Augmentation):
    """Random affine maps, one for each image.

    Attributes:
        rotation: The largest angle, in degrees, either way.
        scale: The smallest and the largest factor of the size; its logarithm is drawn evenly.
        stretch: The largest ratio of width to height, and of height to width; drawn the same way.
        shear: How far a row may move against the next, in pixels, either way.
        shift: The largest shift along each axis, as a share of the image, either way.
        beyond: What is seen beyond the edge: ``"black"``, or the ``"border"``.
        consistency: The weight of a consistency loss between two views; at 0 there is one.
    """

    rotation: float = 20.0
    scale: tuple[float, ...] = (0.7, 1.4)
    stretch: float = 1.2
    shear: float = 0.2
    shift: float = 0.1
    beyond: str = "black"
    consistency: float = 0.0

    neutral = {  # noqa: RUF012 - a constant of the class
        "rotation": 0.0,
        "scale": [1.0, 1.0],
        "stretch": 1.0,
        "shear": 0.0,
        "shift": 0.0,
    }

    def validate(self) -> None:
        """Look at the values of the settings."""
        if len(self.scale) != 2 or not 0 < self.scale[0] <= self.scale[1]:
            raise self.refuse("scale", "two rising numbers above 0")
        if self.stretch < 1:
            raise self.refuse("stretch", "1 or more")
        if self.beyond not in ("black", "border"):
            raise self.refuse("beyond", "'black' or 'border'")
        for name in ("rotation", "shear", "shift", "consistency"):
            if getattr(self, name) < 0:
                raise self.refuse(name, "0 or more")

    def draw_numbers(self, shape: torch.Size, generator: torch.Generator) -> Numbers:
        """Six for each view: turn, scale, stretch, shear and two shifts, evenly from -1 to 1; ``(N, 6)``."""
        still = self.make(self.neutral)
        views = 2 if self.consistency else 1
        if all(getattr(self, name) == getattr(still, name) for name in self.neutral):
            views = 0
        return tuple(
            self.each(shape, lambda count: 2 * torch.rand(count, 6, generator=generator) - 1) for _ in range(views)
        )

    def views_with(self, images: Tensor, *numbers: Tensor) -> list[Tensor]:
        """One view to learn from, and another where their answers must agree."""
        return [self.view(images, each) for each in numbers] or [images]

    def view(self, images: Tensor, numbers: Tensor) -> Tensor:
        """Each image through a map of its own."""
        height, width = images.shape[2:]
        rows, columns = affine_places(self.maps(numbers, height, width).to(images), height, width)
        beyond = "zeros" if self.beyond == "black" else "border"
        return self.inputs(sampled(self.pictures(images), rows, columns, beyond))

    def maps(self, numbers: Tensor, height: int, width: int) -> Tensor:
        """Maps from new places to old ones, about the centre, in pixels; ``(N, 2, 3)``, float64.

        They are the inverse of: scale and stretch, then shear, then turn, then shift.
        """
        turn, scale, stretch, shear, right, down = numbers.double().unbind(1)
        angle, slant = (self.rotation * turn).deg2rad(), self.shear * shear
        low, high = (math.log(end) for end in self.scale)
        size = ((low + high) / 2 + (high - low) / 2 * scale).exp()
        wider = (stretch * math.log(self.stretch) / 2).exp()
        sine, cosine = angle.sin(), angle.cos()
        first = torch.stack([cosine + slant * sine, sine - slant * cosine], 1) / (size * wider)[:, None]
        second = torch.stack([-sine, cosine], 1) / (size / wider)[:, None]
        back = torch.stack([first, second], 1)
        away = torch.stack([right * self.shift * width, down * self.shift * height], 1)[..., None]
        return torch.cat([back, -back @ away], 2)
