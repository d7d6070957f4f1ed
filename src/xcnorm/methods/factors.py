"""Factors of MCL: fourteen ways in which an image may differ from the source, each with a magnitude.

What Pillow does to pictures of 8 bits, level by level, for whole batches: levels are whole numbers from 0 to 255 in
single precision, ``(N, 3, H, W)``, and stay so. Each image has a value of its own, ``(N,)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

_LEVELS = 256
_TOP = 255
_PARTS = 1 << 16
MAGNITUDES = 30
"""A magnitude is given as so many parts, from 0, of the range of a factor."""


class Factor(NamedTuple):
    """One factor.

    Attributes:
        low: Its smallest value.
        high: Its largest.
        apply: From levels, values and random fields to levels.
        signed: Whether its value may as well be negative, by chance.
    """

    low: float
    high: float
    apply: Callable[[Tensor, Tensor, Fields], Tensor]
    signed: bool = False

    def value(self, magnitude: Tensor) -> Tensor:
        """Magnitudes from 0 to 30 to values."""
        return (magnitude.double() / MAGNITUDES * (self.high - self.low) + self.low).float()


class Fields(NamedTuple):
    """What noise is made of.

    Attributes:
        normal: Standard normal, ``(N or 1, 3, H, W)``.
        even: From 0 to 1, one number for each pixel, ``(N or 1, 1, H, W)``.
    """

    normal: Tensor
    even: Tensor

    @classmethod
    def draw(cls, count: int, height: int, width: int, generator: torch.Generator) -> Fields:
        """New ones, on the CPU."""
        return cls(
            torch.randn(count, 3, height, width, generator=generator),
            torch.rand(count, 1, height, width, generator=generator),
        )


def _shear_rows(levels: Tensor, value: Tensor, fields: Fields) -> Tensor:
    return _sheared(levels, value, 3)


def _shear_columns(levels: Tensor, value: Tensor, fields: Fields) -> Tensor:
    return _sheared(levels, value, 2)


def _stretch_contrast(levels: Tensor, value: Tensor, fields: Fields) -> Tensor:
    """Without so many percent of the pixels at either end, from black to white; channel by channel."""
    counts = _histogram(levels)
    number = levels.shape[2] * levels.shape[3]
    cut = (number * value.view(-1, 1, 1) / 100).floor()
    level = torch.arange(_LEVELS, device=levels.device, dtype=levels.dtype)
    below, above = counts.cumsum(2), counts.flip(2).cumsum(2).flip(2)
    left = (below > cut) & (above > cut)  # where something is left when both ends are cut
    low = torch.where(left, level, _LEVELS).amin(2, keepdim=True).double()
    high = torch.where(left, level, -1).amax(2, keepdim=True).double()
    scale = torch.full_like(low, _TOP) / (high - low).clamp_min(1)  # torch takes a number over a tensor by reciprocals
    table = (level * scale + -low * scale).trunc().clamp(0, _TOP).to(levels.dtype)
    table = torch.where(high > low, table, level)
    return table.gather(2, levels.long().flatten(2)).view(levels.shape)


def _invert(levels: Tensor, value: Tensor, fields: Fields) -> Tensor:
    return _TOP - levels


def _equalise(levels: Tensor, value: Tensor, fields: Fields) -> Tensor:
    counts, index = _histogram(levels), levels.long().flatten(2)
    last = counts.gather(2, index.amax(2, keepdim=True))
    step = ((index.shape[2] - last) / _TOP).floor()
    table = (((step / 2).floor() + counts.cumsum(2) - counts) / step.clamp_min(1)).floor().clamp_max(_TOP)
    return torch.where(step[..., None] == 0, levels, table.gather(2, index).view(levels.shape))


def _solarise(levels: Tensor, value: Tensor, fields: Fields) -> Tensor:
    return torch.where(levels < _each(value), levels, _TOP - levels)


def _solarise_added(levels: Tensor, value: Tensor, fields: Fields) -> Tensor:
    added = (levels + _each(value)).clamp_max(_TOP).floor()
    return torch.where(added < _LEVELS // 2, added, _TOP - added)


def _posterise(levels: Tensor, value: Tensor, fields: Fields) -> Tensor:
    unit = _each(2 ** (8 - value.floor().clamp_min(1)))
    return (levels / unit).floor() * unit


def _contrast(levels: Tensor, value: Tensor, fields: Fields) -> Tensor:
    mean = (_grey(levels).mean((2, 3), keepdim=True) + 0.5).floor()
    return _blended(mean, levels, value)


def _colour(levels: Tensor, value: Tensor, fields: Fields) -> Tensor:
    return _blended(_grey(levels), levels, value)


def _brightness(levels: Tensor, value: Tensor, fields: Fields) -> Tensor:
    return _blended(torch.zeros_like(levels), levels, value)


def _sharpness(levels: Tensor, value: Tensor, fields: Fields) -> Tensor:
    """The border stays as it is."""
    kernel = torch.ones(3, 3, device=levels.device, dtype=levels.dtype)
    kernel[1, 1].fill_(5)
    inner = (F.conv2d(levels, kernel.expand(3, 1, 3, 3), groups=3) / 13 + 0.5).floor()
    smooth = levels.clone()
    smooth[:, :, 1:-1, 1:-1] = inner
    return _blended(smooth, levels, value)


def _salt(levels: Tensor, value: Tensor, fields: Fields) -> Tensor:
    """Such a share of pixels becomes white or black."""
    half = _each(value) / 2
    salted = torch.where(fields.even < half, float(_TOP), levels)
    return torch.where(fields.even > 1 - half, 0.0, salted)


def _noise(levels: Tensor, value: Tensor, fields: Fields) -> Tensor:
    return (levels + _TOP * _each(value) * fields.normal).clamp(0, _TOP).floor()


FACTORS: dict[str, Factor] = {
    "shear_rows": Factor(0.0, 0.3, _shear_rows, signed=True),
    "shear_columns": Factor(0.0, 0.3, _shear_columns, signed=True),
    "stretch_contrast": Factor(0.0, 100.0, _stretch_contrast),
    "invert": Factor(0.0, 1.0, _invert),
    "equalise": Factor(0.0, 1.0, _equalise),
    "solarise": Factor(0.0, 256.0, _solarise),
    "solarise_added": Factor(0.0, 110.0, _solarise_added),
    "posterise": Factor(0.0, 4.0, _posterise),
    "contrast": Factor(0.1, 1.9, _contrast),
    "colour": Factor(0.1, 1.9, _colour),
    "brightness": Factor(0.1, 1.9, _brightness),
    "sharpness": Factor(0.1, 1.9, _sharpness),
    "salt": Factor(0.0, 0.1, _salt),
    "noise": Factor(0.0, 0.1, _noise),
}
"""By name, in the order of the published program."""


def _each(value: Tensor) -> Tensor:
    return value.view(-1, 1, 1, 1)


def _histogram(levels: Tensor) -> Tensor:
    """``(N, C, 256)``."""
    counts = torch.zeros(*levels.shape[:2], _LEVELS, device=levels.device, dtype=levels.dtype)
    return counts.scatter_add_(2, levels.long().flatten(2), torch.ones_like(levels).flatten(2))


def _grey(levels: Tensor) -> Tensor:
    """As Pillow rounds it."""
    red, green, blue = levels.split(1, 1)
    return ((19595 * red + 38470 * green + 7471 * blue + 0x8000) / 65536).floor()


def _blended(one: Tensor, other: Tensor, value: Tensor) -> Tensor:
    """From one at 0 to the other at 1, and beyond; Pillow rounds down."""
    return (one + _each(value) * (other - one)).clamp(0, _TOP).floor()


def _sheared(levels: Tensor, value: Tensor, axis: int) -> Tensor:
    """Move each row, or column, by its number times a value; the nearest pixel, and black from outside."""
    size, other = levels.shape[axis], levels.shape[5 - axis]
    line, pixel = torch.arange(other, device=levels.device), torch.arange(size, device=levels.device)
    # In whole parts of a pixel, as Pillow counts: where a row begins, and how far it moves from one to the next.
    slope = value.double().view(-1, 1, 1)
    start, step = (((0.5 + slope * 0.5) * _PARTS + 0.5).floor().long(), (slope * _PARTS + 0.5).floor().long())
    place = (start + step * line[:, None] + pixel * _PARTS) // _PARTS  # (N, lines, pixels)
    inside = ((place >= 0) & (place < size))[:, None]
    index = place.clamp(0, size - 1)[:, None]
    turned = levels if axis == 3 else levels.transpose(2, 3)
    moved = turned.gather(3, index.expand(turned.shape)) * inside
    return moved if axis == 3 else moved.transpose(2, 3)
