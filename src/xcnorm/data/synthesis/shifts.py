"""The plainest shifts of a domain: the negative of a picture, and a picture in low contrast."""

from __future__ import annotations

import torch
from torch import Tensor

from xcnorm.errors import UserError


def invert(images: Tensor) -> Tensor:
    """The negative: black becomes white.

    Args:
        images: Any shape, uint8.

    Raises:
        UserError: The images are not of 8 bits.
    """
    _check(images)
    return 255 - images


def low_contrast(images: Tensor, gain: float = 0.3, offset: float = 0.4) -> Tensor:
    """Grey on grey: ``gain * x + offset`` of images in [0, 1], rounded to 8 bits.

    Args:
        images: Any shape, uint8.
        gain: How much of the contrast is left.
        offset: What black becomes, from 0 (black) to 1 (white).

    Raises:
        UserError: The images are not of 8 bits, or black or white would leave [0, 1].
    """
    _check(images)
    if not (0 <= offset <= 1 and 0 <= gain + offset <= 1):
        raise UserError(f"offset and gain + offset must be from 0 to 1, not {offset} and {gain + offset}")
    return (gain * images.double() + 255 * offset).round().to(torch.uint8)


def _check(images: Tensor) -> None:
    if images.dtype != torch.uint8:
        raise UserError(f"images must be uint8, not {images.dtype}; convert them first")
