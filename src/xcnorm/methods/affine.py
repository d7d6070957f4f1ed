"""Affine: look at each image through a random affine map: turned, scaled, stretched, sheared and shifted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from xcnorm.methods.augmentation import Augmentation
from xcnorm.methods.method import register_method
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

    def views_of(self, images: Tensor, generator: torch.Generator) -> list[Tensor]:
        """One view to learn from, and another where their answers must agree."""
        still = self.make(self.neutral)
        if all(getattr(self, name) == getattr(still, name) for name in self.neutral):
            return [images]
        return [self.view(images, generator) for _ in range(2 if self.consistency else 1)]

    def view(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Each image through a map of its own."""
        height, width = images.shape[2:]
        maps = self.each(images, lambda count: self.maps(count, height, width, generator))
        rows, columns = affine_places(maps.to(images), height, width)
        beyond = "zeros" if self.beyond == "black" else "border"
        return self.inputs(sampled(self.pictures(images), rows, columns, beyond))

    def maps(self, count: int, height: int, width: int, generator: torch.Generator) -> Tensor:
        """Random maps from new places to old ones, about the centre, in pixels; ``(count, 2, 3)``, float64."""
        turn, scale, stretch, shear, right, down = (2 * torch.rand(6, count, generator=generator) - 1).double()
        angle = (self.rotation * turn).deg2rad()
        low, high = (math.log(end) for end in self.scale)
        size = ((low + high) / 2 + (high - low) / 2 * scale).exp()
        wider = (stretch * math.log(self.stretch) / 2).exp()
        zero, one = torch.zeros_like(size), torch.ones_like(size)
        parts = [
            [angle.cos(), -angle.sin(), angle.sin(), angle.cos()],
            [one, self.shear * shear, zero, one],
            [size * wider, zero, zero, size / wider],
        ]
        first, second, third = (torch.stack(part, 1).view(-1, 2, 2) for part in parts)
        back = (first @ second @ third).inverse()
        away = torch.stack([right * self.shift * width, down * self.shift * height], 1)[..., None]
        return torch.cat([back, -back @ away], 2)
