"""Pillow's way of resizing: the bits are those of its ``Image.resize``.

Pillow works in whole numbers: weights are rounded to 22 bits, and rows are rounded to 8 bits before columns are looked
at. Matrix products in double precision hold such sums exactly, in whichever order they are taken, so the result is the
same on every device. (Pillow from version 13 on begins with the columns where an image is shrunk more in height than in
width, and may then differ by some levels.)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor


class Filter(NamedTuple):
    """How much a pixel gives to another.

    Attributes:
        reach: The distance from which on it gives nothing.
        curve: From distances to weights, which need not sum to 1.
    """

    reach: float
    curve: Callable[[Tensor], Tensor]


BOX = Filter(0.5, lambda x: ((x > -0.5) & (x <= 0.5)).double())
TRIANGLE = Filter(1, lambda x: (1 - x.abs()).clamp(min=0))  # Pillow calls it bilinear


def resize(images: Tensor, height: int, width: int, kind: Filter) -> Tensor:
    """Resize 8-bit values ``(N, C, H, W)``: float64, whole numbers from 0 to 255."""
    across, down = _weights(images.shape[3], width, kind), _weights(images.shape[2], height, kind)
    return _to_8_bits(down.to(images.device) @ _to_8_bits(images @ across.to(images.device).mT))


@cache
def _weights(old: int, new: int, kind: Filter) -> Tensor:
    """``(new, old)``, float64: how much each old pixel gives to each new one, in whole multiples of 2^-22."""
    stretch = max(old / new, 1)  # when shrinking, the filter covers all the pixels that fall into a new one
    centre = (torch.arange(new, dtype=torch.float64).unsqueeze(1) + 0.5) * (old / new)
    pixel = torch.arange(old, dtype=torch.float64)
    # Pillow first finds the pixels that may be within reach, then asks the filter about each; roundings differ.
    first, end = ((centre + side * kind.reach * stretch + 0.5).floor() for side in (-1, 1))
    share = kind.curve((pixel - centre + 0.5) * (1 / stretch)) * ((pixel >= first) & (pixel < end))
    share = share / share.sum(1, keepdim=True) * 2**22
    return (share + 0.5 * share.sign()).trunc() / 2**22


def _to_8_bits(sums: Tensor) -> Tensor:
    """Whole numbers from 0 to 255, halves rounded up as a shift does after adding a half."""
    return sums.add_(0.5).floor_().clamp_(0, 255)
