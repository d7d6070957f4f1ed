"""Scene: digits as they stand on house numbers and signs, with others beside them, in thick, thin and hollow strokes.

This is knowledge about digits, and none about any target's pictures; results by it are no results of a method that
knows nothing of its task.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from xcnorm.methods.affine import Affine
from xcnorm.methods.augmentation import grouped
from xcnorm.methods.method import Numbers, register_method
from xcnorm.methods.warping import sampled

_SIDES = (-1, 1)  # left and right
_LEVEL = 0.1  # how far a neighbour may stand higher or lower, as a share of the image's height


@register_method("scene")
@dataclass
class Scene(Affine):
    """An affine view of each digit, with other strokes, and with two others of its batch at its sides.

    Attributes:
        neighbours: How likely a neighbour is, at each side.
        apart: How far neighbours stand from the digit: the least and the most, as shares of the image's width.
        stroke: The largest share by which strokes grow, or shrink, by a pixel at each edge.
        hollow: How likely a digit is an outline.
    """

    neighbours: float = 0.7
    apart: tuple[float, ...] = (0.45, 0.75)
    stroke: float = 0.6
    hollow: float = 0.15

    distributed = "a digit's neighbours are others of its batch"
    neutral = {**Affine.neutral, "neighbours": 0.0, "stroke": 0.0, "hollow": 0.0}  # noqa: RUF012 - a constant

    def validate(self) -> None:
        """Look at the values of the settings."""
        super().validate()
        if len(self.apart) != 2 or not 0 < self.apart[0] <= self.apart[1]:
            raise self.refuse("apart", "two rising numbers above 0")
        for name in ("neighbours", "stroke", "hollow"):
            if not 0 <= getattr(self, name) <= 1:
                raise self.refuse(name, "between 0 and 1")

    def draw_numbers(self, shape: torch.Size, generator: torch.Generator) -> Numbers:
        """For each view: what an affine map takes; eight numbers an image; how far on in a batch neighbours are."""
        still = self.make(self.neutral)
        if all(getattr(self, name) == getattr(still, name) for name in self.neutral):
            return ()
        drawn: list[Tensor] = []
        for _ in range(2 if self.consistency else 1):
            drawn.append(self.each(shape, lambda count: 2 * torch.rand(count, 6, generator=generator) - 1))
            drawn.append(self.each(shape, lambda count: torch.rand(count, 8, generator=generator)))
            drawn.append(torch.randint(1, max(2, shape[0]), (1, len(_SIDES)), generator=generator))
        return tuple(drawn)

    def views_with(self, images: Tensor, *numbers: Tensor) -> list[Tensor]:
        """One view to learn from, and another where their answers must agree."""
        return [self._scene(images, *each) for each in grouped(numbers, 3)] or [images]

    def _scene(self, images: Tensor, maps: Tensor, chances: Tensor, on: Tensor) -> Tensor:
        digits = self.pictures(self.view(images, maps))
        chances = chances.to(images)
        digits = self.written(digits, chances[:, 0], chances[:, 1])
        batch = len(images) // len(on)
        places = torch.arange(len(images), device=images.device).view(-1, batch)
        seen = digits
        for number, side in enumerate(_SIDES):
            there, far, high = chances[:, 2 + 3 * number : 5 + 3 * number].unbind(1)
            others = (places + on[:, number, None].to(places)) % batch + places[:, :1]
            low, most = self.apart
            right = side * (low + (most - low) * far) * images.shape[3]
            down = (2 * high - 1) * _LEVEL * images.shape[2]
            beside = moved(digits[others.flatten()], right, down)
            seen = torch.maximum(seen, beside * (there < self.neighbours)[:, None, None, None])
        return self.inputs(seen)

    def written(self, digits: Tensor, width: Tensor, outline: Tensor) -> Tensor:
        """Bright digits with thicker or thinner strokes, some of them as outlines.

        Args:
            digits: ``(N, C, H, W)``, from 0 to 1.
            width: From 0 to 1, for each: below a half strokes shrink, above they grow.
            outline: From 0 to 1, for each: below `hollow` it is an outline.
        """
        grown, shrunk = F.max_pool2d(digits, 3, 1, 1), -F.max_pool2d(-digits, 3, 1, 1)
        share = (self.stroke * (2 * width - 1))[:, None, None, None]
        strokes = torch.where(share > 0, torch.lerp(digits, grown, share), torch.lerp(digits, shrunk, -share))
        return torch.where((outline < self.hollow)[:, None, None, None], grown - digits, strokes)


def moved(images: Tensor, right: Tensor, down: Tensor) -> Tensor:
    """Each image moved by so many pixels; black comes in from beyond the edge."""
    height, width = images.shape[2:]
    row = torch.arange(height, device=images.device)[:, None] - down[:, None, None]
    column = torch.arange(width, device=images.device) - right[:, None, None]
    return sampled(images, row.expand(-1, -1, width), column.expand(-1, height, -1))
