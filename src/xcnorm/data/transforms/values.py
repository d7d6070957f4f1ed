"""Size, range and number of channels: what every image goes through on its way to a network."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from xcnorm.data import resampling
from xcnorm.data.transforms._shared import check
from xcnorm.errors import UserError

_CHUNK = 1 << 18  # values resized at a time; what fits in a processor's cache goes fastest


def resize(images: Tensor, size: int) -> Tensor:
    """Resize to a square: the bits are those of Pillow's bilinear ``Image.resize``, on every device.

    (Pillow from version 13 on begins with the columns where an image is shrunk more in height than in width, and may
    then differ by some levels.)

    Args:
        images: ``(N, C, H, W)``, uint8.
        size: Height and width of the result.

    Raises:
        UserError: The images are not uint8, or the size is not positive.
    """
    check(images)
    if images.dtype != torch.uint8:
        raise UserError(f"only uint8 images can be resized, not {images.dtype}; resize before to_float")
    if size < 1:
        raise UserError(f"images cannot be resized to {size} pixels; give a size of 1 or more")
    height, width = images.shape[2:]
    if height == width == size:
        return images.clone()
    result = images.new_empty(*images.shape[:2], size, size)
    chunk = max(1, _CHUNK // (images.shape[1] * max(height, size) * max(width, size)))
    for part, whole in zip(result.split(chunk), images.split(chunk), strict=True):
        part.copy_(resampling.resize(whole.double(), size, size, resampling.TRIANGLE))
    return result


def to_float(images: Tensor) -> Tensor:
    """uint8 from 0 to 255 to float32 from 0 to 1.

    Raises:
        UserError: The images are not uint8.
    """
    check(images)
    if images.dtype != torch.uint8:
        raise UserError(f"to_float takes uint8 images, not {images.dtype}; leave it out for floating point")
    return images.float() / 255


def normalise(images: Tensor, mean: float | Sequence[float], std: float | Sequence[float]) -> Tensor:
    """Subtract a mean and divide by a standard deviation, both in units of images from 0 to 1.

    Args:
        images: ``(N, C, H, W)``, uint8, which becomes float32 as in `to_float`, or floating point.
        mean: One number, or one for each channel.
        std: One number, or one for each channel; positive.

    Raises:
        UserError: There are neither one nor C numbers, or a deviation is not positive.
    """
    check(images)
    values, top = (images.float(), 255) if images.dtype == torch.uint8 else (images, 1)
    centre, spread = _per_channel("mean", mean, images), _per_channel("std", std, images)
    if not (spread > 0).all():
        raise UserError(f"std must be positive, not {std}")
    return (values - (centre * top).to(values)) / (spread * top).to(values)


def grey_to_rgb(images: Tensor) -> Tensor:
    """Three equal channels from one, as a view that takes no memory; three stay as they are.

    Raises:
        UserError: The images have neither one channel nor three.
    """
    check(images, colour=True)
    return images.expand(-1, 3, -1, -1)


def _per_channel(name: str, numbers: float | Sequence[float], images: Tensor) -> Tensor:
    """``(1 or C, 1, 1)``, still on the CPU and in double precision."""
    values = torch.as_tensor(numbers, dtype=torch.float64).reshape(-1, 1, 1)
    if len(values) not in (1, images.shape[1]):
        raise UserError(f"{name} has {len(values)} numbers for {images.shape[1]} channels; give one, or one for each")
    return values
