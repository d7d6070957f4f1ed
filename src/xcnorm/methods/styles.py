"""The style generator of L2D: images with the same content in another style, by convolutions with random weights."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xcnorm.data.training_images import Preparation

_LEAST = 1e-3  # of the sum of branch weights that the branches are divided by


class Styles(nn.Module):
    """A mixture of branches, each of which sees the images through convolutions that know nothing.

    One branch for each kernel size: a convolution, an instance norm, a scale and a shift for each position, a
    transposed convolution back to the size of the image, tanh. One more mixes colours: a 1x1 convolution, dropout,
    tanh. The sum of all, with weights that make one together, goes through a sigmoid to the range of an image.

    Only scales and shifts are learned. A style is everything else, in one vector, which takes one transfer to a
    device: the weights and biases of the convolutions and the branch weights.

    Args:
        shape: Of an image as the network sees it: channels, height, width.
        kernels: The sizes of the kernels.
        dropout: The probability that a value of the colour branch is left out.
        prepare: Makes of images what the network sees.

    Attributes:
        scale: Of each branch but the colours', ``(C, H', W')``.
        shift: The same.
        fixed: The style in which they learn: branches of equal weights.
    """

    fixed: Tensor
    mean: Tensor
    std: Tensor

    def __init__(self, shape: Sequence[int], kernels: Sequence[int], dropout: float, prepare: Preparation) -> None:
        super().__init__()
        channels, height, width = shape
        self._kernels, self._channels, self._dropout = kernels, channels, dropout
        maps = [(channels, height - size + 1, width - size + 1) for size in kernels]
        self.scale = nn.ParameterList([1 + 0.1 * torch.randn(each) for each in maps])
        self.shift = nn.ParameterList([0.01 * torch.randn(each) for each in maps])
        # Torch's own bounds for new convolutions. Those before a norm have no bias, which it would take away again.
        filters = [(channels**2 * size**2, 1 / math.sqrt(channels * size**2)) for size in kernels]
        parts = [(channels**2, 1 / math.sqrt(channels)), (channels, 1 / math.sqrt(channels))]
        for count, bound in filters:
            parts += [(count, bound), (count, bound), (channels, bound)]
        self._bounds = torch.cat([torch.full((count,), bound) for count, bound in parts])
        self._sizes = [count for count, _ in parts] + [len(kernels) + 1]
        even = torch.full((len(kernels) + 1,), 1 / (len(kernels) + 1))
        self.register_buffer("fixed", torch.cat([self._convolutions(None), even]))
        for name, value in (("mean", prepare.mean), ("std", prepare.std)):
            self.register_buffer(name, torch.tensor(value, dtype=torch.float32).view(-1, 1, 1), persistent=False)

    def draw(self, images: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """A random style, and which values of the colour branch are kept, ``(N, C, H, W)``."""
        weights = torch.randn(len(self._kernels) + 1, generator=generator)
        total = weights.sum()
        weights = weights / total.abs().clamp_min(_LEAST).copysign(total)
        style = torch.cat([self._convolutions(generator), weights])
        kept = torch.rand(images.shape, generator=generator) >= self._dropout
        return style.to(images.device), kept.to(images.device)

    def forward(self, images: Tensor, style: Tensor, kept: Tensor | None = None) -> Tensor:
        """Images as the network sees them to images in a style, as the network sees them.

        Args:
            images: ``(N, C, H, W)``.
            style: From `draw`, or `fixed`.
            kept: From `draw`; None is all.
        """
        colours, bias, *others, weights = style.split(self._sizes)
        mixed = F.conv2d(images, colours.view(self._channels, self._channels, 1, 1), bias)
        if kept is not None:
            mixed = mixed * kept / (1 - self._dropout)
        total = weights[0] * mixed.tanh()
        for branch, (size, scale, shift) in enumerate(zip(self._kernels, self.scale, self.shift, strict=True)):
            down, up, bias = others[3 * branch : 3 * branch + 3]
            filters = (self._channels, self._channels, size, size)
            inner = scale * F.instance_norm(F.conv2d(images, down.view(filters))) + shift
            total = total + weights[branch + 1] * F.conv_transpose2d(inner, up.view(filters), bias).tanh()
        return (total.sigmoid() - self.mean) / self.std

    def _convolutions(self, generator: torch.Generator | None) -> Tensor:
        return (2 * torch.rand(len(self._bounds), generator=generator) - 1) * self._bounds
