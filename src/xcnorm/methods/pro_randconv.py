"""Pro-RandConv: repeat one small, warped random convolution several times (Choi et al., CVPR 2023).

A large random kernel blurs an object away; a small one that is applied again and again changes texture and contrast as
much, and keeps what is near the middle of its reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from xcnorm.methods.augmentation import Augmentation, grouped
from xcnorm.methods.method import Numbers, register_method
from xcnorm.methods.warping import sampled

_LEAST_WIDTH = 1e-3  # of a drawn width or deviation
_LEAST_VARIANCE = 1e-6  # added before a root


@register_method("pro_randconv")
@dataclass
class ProRandConv(Augmentation):
    """Progressive random convolutions: the images and a view of them are learned from, without a consistency loss.

    Attributes:
        kernel: The size of the kernel.
        repeats: The largest number of times that a block is applied; at 0 there is no view, and nothing is left of the
            method.
        offsets: The largest deviation of the deformable offsets in pixels: 0.2 for 32 pixels, 0.5 for 224.
        width: The largest width of the Gaussian window on the kernel, in pixels.
        gain: The deviation of the factors of the contrast diversification.
        shift: The deviation of its summands.
        original: Whether the images themselves are learned from, too.
        consistency: The weight of a consistency loss between all views; the publication has none.
    """

    kernel: int = 3
    repeats: int = 10
    offsets: float = 0.2
    width: float = 1.0
    gain: float = 0.5
    shift: float = 0.5
    original: bool = True
    consistency: float = 0.0

    cost = 2.0
    neutral = {"repeats": 0}  # noqa: RUF012 - a constant of the class

    @property
    def learned(self) -> int:
        """The images and the view; the first of two views, where the images are left out."""
        return 2 if self.repeats and self.original else 1

    def validate(self) -> None:
        """Look at the values of the settings."""
        if self.kernel < 1 or self.kernel % 2 == 0:
            raise self.refuse("kernel", "an odd number from 1")
        if self.width < _LEAST_WIDTH:
            raise self.refuse("width", f"{_LEAST_WIDTH} or more")
        for name in ("repeats", "offsets", "gain", "shift", "consistency"):
            if getattr(self, name) < 0:
                raise self.refuse(name, "0 or more")

    def draw_numbers(self, shape: torch.Size, generator: torch.Generator) -> Numbers:
        """For each view a block, and how often it is applied."""
        views = (2 if self.consistency and not self.original else 1) if self.repeats else 0
        return tuple(chain.from_iterable(self.draw_view(shape, generator) for _ in range(views)))

    def draw_view(self, shape: torch.Size, generator: torch.Generator) -> Numbers:
        """The parts of a block, and how often it is applied, ``(1,)``."""
        block = RandomBlock.draw(self, shape, generator)
        return *block, torch.randint(1, self.repeats + 1, (1,), generator=generator)

    def views_with(self, images: Tensor, *numbers: Tensor) -> list[Tensor]:
        """The images, if they are learned from, and a view; without them two views where answers must agree."""
        if not self.repeats:
            return [images]
        views = [self.view(images, *each) for each in grouped(numbers, len(RandomBlock._fields) + 1)]
        return [images, *views] if self.original else views

    def view(self, images: Tensor, *numbers: Tensor) -> Tensor:
        """Each batch through one random block, the same for all its images, as often as is drawn."""
        *parts, repeats = numbers
        order = repeats.argsort(descending=True)
        block = RandomBlock(*(part[order].to(images) for part in parts))
        place = order.to(images.device)
        values = 2 * self.pictures(images.unflatten(0, (len(order), -1)))[place] - 1  # the block keeps this range
        for turn in range(int(repeats.max())):
            going_on = slice(int((repeats > turn).sum()))
            values[going_on] = RandomBlock(*(part[going_on] for part in block))(values[going_on])
        return self.inputs((torch.empty_like(values).index_copy_(0, place, values).flatten(0, 1) + 1) / 2)


class RandomBlock(NamedTuple):
    """A deformable convolution, a standardisation with another contrast and brightness, and tanh; for each batch one.

    Attributes:
        weight: Of the convolution, ``(batches, C, C, K, K)``.
        offsets: How far from its place each weight looks, rows and columns in pixels, ``(batches, 2, K * K, H, W)``.
        gain: For each channel, ``(batches, C, 1, 1)``.
        shift: The same.
    """

    weight: Tensor
    offsets: Tensor
    gain: Tensor
    shift: Tensor

    @classmethod
    def draw(cls, settings: ProRandConv, shape: torch.Size, generator: torch.Generator) -> RandomBlock:
        """One for a batch of images of this shape."""
        _, channels, height, width = shape
        size = settings.kernel
        smooth, spread = torch.rand(2, generator=generator).tolist()
        deviation = _LEAST_WIDTH + (settings.width - _LEAST_WIDTH) * smooth
        away = (torch.arange(size) - size // 2).square().float()
        window = (-(away[:, None] + away) / (2 * deviation**2)).exp()
        weight = torch.randn(1, channels, channels, size, size, generator=generator) / (channels * size**2) ** 0.5
        offsets = torch.randn(1, 2, size**2, height, width, generator=generator) * settings.offsets * spread
        gain, shift = torch.randn(2, 1, channels, 1, 1, generator=generator)
        return cls(weight * window, offsets, settings.gain * gain, settings.shift * shift)

    def __call__(self, values: Tensor) -> Tensor:
        """Values from -1 to 1, ``(batches, N, C, H, W)``, to others."""
        seen = deformed(values, self.weight, self.offsets)
        variance, mean = torch.var_mean(seen, (3, 4), correction=0, keepdim=True)
        contrast = self.gain[:, None] * (variance + _LEAST_VARIANCE).rsqrt()
        return torch.tanh(contrast * (seen - mean) + self.shift[:, None])


def deformed(images: Tensor, weight: Tensor, offsets: Tensor) -> Tensor:
    """A convolution for each batch, whose weights look beside their places; beyond the edge there are zeros.

    Args:
        images: ``(batches, N, C, H, W)``.
        weight: ``(batches, O, C, K, K)``.
        offsets: Rows and columns in pixels, for each weight and each position, ``(batches, 2, K * K, H, W)``.
    """
    batches, count, _, height, width = images.shape
    reach = torch.arange(weight.shape[-1], device=images.device) - weight.shape[-1] // 2
    row = torch.arange(height, device=images.device)[:, None] + reach.repeat_interleave(len(reach))[:, None, None]
    column = torch.arange(width, device=images.device) + reach.repeat(len(reach))[:, None, None]
    places = (row + offsets[:, 0]).flatten(1, 2), (column + offsets[:, 1]).flatten(1, 2)
    seen = sampled(images.flatten(1, 2), *places)
    patches = seen.view(batches, count, -1, height * width)  # by channel, then by weight
    return (weight.flatten(2)[:, None] @ patches).view(batches, count, -1, height, width)
