"""The generator of PDEN: a small convolutional network from images to images of another look, steered by noise."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

_KERNEL = 3
_WIDTH = 16
NOISE = 10
"""The length of the noise that steers an image's look."""


class Generator:
    """What is known of it without its weights: they are one vector, which takes one transfer to a device.

    Four 3x3 convolutions with 16, 32 and 64 channels, ReLUs between them and a sigmoid at the end. Behind the second
    one, where there is noise, instance norms whose scales and shifts are a linear function of it.

    Args:
        channels: Of the images.

    Attributes:
        size: The number of weights.
    """

    def __init__(self, channels: int) -> None:
        widths = [channels, _WIDTH, 2 * _WIDTH, 4 * _WIDTH, channels]
        self._shapes: list[tuple[int, ...]] = []
        bounds = []
        layers = [(after, before, _KERNEL, _KERNEL) for before, after in pairwise(widths)]
        for shape in [*layers, (2 * widths[2], NOISE)]:
            inputs = torch.Size(shape[1:]).numel()
            for part in (shape, shape[:1]):
                self._shapes.append(part)
                bounds.append(torch.full((torch.Size(part).numel(),), inputs**-0.5))
        self._bounds = torch.cat(bounds)
        self._sizes = [len(each) for each in bounds]
        self.size = len(self._bounds)

    def draw(self, generator: torch.Generator | None) -> Tensor:
        """First weights, as torch draws those of new layers."""
        return (2 * torch.rand(self.size, generator=generator) - 1) * self._bounds

    def __call__(self, weights: Tensor, images: Tensor, noise: Tensor | None = None) -> Tensor:
        """Images to others, from 0 to 1.

        Args:
            weights: ``(size,)``.
            images: ``(N, C, H, W)``, from 0 to 1.
            noise: ``(N, 10)``, standard normal; None is without the norms that it steers.
        """
        parts = [part.view(shape) for part, shape in zip(weights.split(self._sizes), self._shapes, strict=True)]
        inner = _convolved(images, parts[0], parts[1]).relu()
        inner = _convolved(inner, parts[2], parts[3]).relu()
        if noise is not None:
            scale, shift = F.linear(noise, parts[8], parts[9])[:, :, None, None].chunk(2, 1)
            inner = (1 + scale) * F.instance_norm(inner) + shift
        inner = _convolved(inner, parts[4], parts[5]).relu()
        return _convolved(inner, parts[6], parts[7]).sigmoid()


def _convolved(images: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    return F.conv2d(images, kernel, bias, padding=_KERNEL // 2)
