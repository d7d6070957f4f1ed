"""Pro-RandConv: repeat one small, warped random convolution several times (Choi et al., CVPR 2023).

A large random kernel blurs an object away; a small one that is applied again and again changes texture and contrast as
much, and keeps what is near the middle of its reach.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from xcnorm.methods.augmentation import Augmentation
from xcnorm.methods.method import register_method
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
        return 2 if self.original else 1

    def validate(self) -> None:
        """Look at the values of the settings."""
        if self.kernel < 1 or self.kernel % 2 == 0:
            raise self.refuse("kernel", "an odd number from 1")
        if self.width < _LEAST_WIDTH:
            raise self.refuse("width", f"{_LEAST_WIDTH} or more")
        for name in ("repeats", "offsets", "gain", "shift", "consistency"):
            if getattr(self, name) < 0:
                raise self.refuse(name, "0 or more")

    def views_of(self, images: Tensor, generator: torch.Generator) -> list[Tensor]:
        """The images, if they are learned from, and a view; without them two views where answers must agree."""
        if not self.repeats:
            return [images]
        if self.original:
            return [images, self.view(images, generator)]
        return [self.view(images, generator) for _ in range(2 if self.consistency else 1)]

    def view(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """The batch through one random block, the same for all its images, as often as is drawn."""
        block = RandomBlock.draw(self, images, generator)
        values = 2 * self.pictures(images) - 1  # what the block makes of it has this range, too
        for _ in range(int(torch.randint(1, self.repeats + 1, (), generator=generator))):
            values = block(values)
        return self.inputs((values + 1) / 2)


@dataclass(frozen=True)
class RandomBlock:
    """A deformable convolution, a standardisation with another contrast and brightness, and tanh.

    Attributes:
        weight: Of the convolution, ``(C, C, K, K)``.
        offsets: How far from its place each weight looks, rows and columns in pixels, ``(2, K * K, H, W)``.
        gain: For each channel, ``(C, 1, 1)``.
        shift: The same.
    """

    weight: Tensor
    offsets: Tensor
    gain: Tensor
    shift: Tensor

    @classmethod
    def draw(cls, settings: ProRandConv, images: Tensor, generator: torch.Generator) -> RandomBlock:
        """One for images of this shape, where they are."""
        channels, height, width = images.shape[1:]
        size = settings.kernel
        smooth, spread = torch.rand(2, generator=generator).tolist()
        deviation = _LEAST_WIDTH + (settings.width - _LEAST_WIDTH) * smooth
        away = (torch.arange(size) - size // 2).square().float()
        window = (-(away[:, None] + away) / (2 * deviation**2)).exp()
        weight = torch.randn(channels, channels, size, size, generator=generator) / (channels * size**2) ** 0.5
        offsets = torch.randn(2, size**2, height, width, generator=generator) * settings.offsets * spread
        gain, shift = torch.randn(2, channels, 1, 1, generator=generator)
        values = weight * window, offsets, settings.gain * gain, settings.shift * shift
        return cls(*(value.to(images) for value in values))

    def __call__(self, values: Tensor) -> Tensor:
        """Values from -1 to 1, ``(N, C, H, W)``, to others."""
        seen = deformed(values, self.weight, self.offsets)
        variance, mean = torch.var_mean(seen, (2, 3), correction=0, keepdim=True)
        return torch.tanh(self.gain * (seen - mean) * (variance + _LEAST_VARIANCE).rsqrt() + self.shift)


def deformed(images: Tensor, weight: Tensor, offsets: Tensor) -> Tensor:
    """A convolution whose weights look beside their places; beyond the edge there are zeros.

    Args:
        images: ``(N, C, H, W)``.
        weight: ``(O, C, K, K)``.
        offsets: Rows and columns in pixels, for each weight and each position, ``(2, K * K, H, W)``.
    """
    count, _, height, width = images.shape
    reach = torch.arange(weight.shape[-1], device=images.device) - weight.shape[-1] // 2
    row = torch.arange(height, device=images.device)[:, None] + reach.repeat_interleave(len(reach))[:, None, None]
    column = torch.arange(width, device=images.device) + reach.repeat(len(reach))[:, None, None]
    seen = sampled(images, (row + offsets[0]).flatten(0, 1), (column + offsets[1]).flatten(0, 1))
    patches = seen.view(count, -1, height * width)  # by channel, then by weight
    return (weight.flatten(1) @ patches).view(count, -1, height, width)
