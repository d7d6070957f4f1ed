"""Random flips and crops."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from xcnorm.data.transforms._shared import check, coins, like, on_cpu, precise, uniform
from xcnorm.errors import UserError

_TRIES = 10  # boxes drawn for each image before the largest central one is taken


def random_flip(images: Tensor, generator: torch.Generator, p: float = 0.5) -> Tensor:
    """Mirror each image, left to right, with probability `p`.

    Args:
        images: ``(N, C, H, W)``, uint8 or floating point of any range.
        generator: Where the coins come from; on the CPU.
        p: The probability.

    Raises:
        UserError: `p` is not a probability, or the generator is not on the CPU.
    """
    check(images)
    return torch.where(coins(images, generator, p), images.flip(3), images)


def random_crop(images: Tensor, generator: torch.Generator, padding: int = 4) -> Tensor:
    """Shift each image by up to `padding` pixels along either axis; zeros move in from outside.

    This is the usual recipe for CIFAR: pad every side, then cut out the old size at a random place.

    Args:
        images: ``(N, C, H, W)``, uint8 or floating point of any range.
        generator: Where the shifts come from; on the CPU.
        padding: The largest shift.

    Raises:
        UserError: The padding is negative, or the generator is not on the CPU.
    """
    check(images)
    if padding < 0:
        raise UserError(f"padding must be 0 or more, not {padding}")
    height, width = images.shape[2:]
    corner = torch.randint(0, 2 * padding + 1, (len(images), 2), generator=on_cpu(generator))
    rows = (corner[:, :1] + torch.arange(height)).to(images.device)
    columns = (corner[:, 1:] + torch.arange(width)).to(images.device)
    padded = F.pad(images, (padding,) * 4)
    return padded.take_along_dim(rows[:, None, :, None], 2).take_along_dim(columns[:, None, None, :], 3)


def random_resized_crop(
    images: Tensor,
    generator: torch.Generator,
    scale: tuple[float, float] = (0.8, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
) -> Tensor:
    """Cut a box out of each image, at a random place and of random size and shape, and stretch it to the old size.

    The box is drawn as torchvision draws it: ten tries, each with a share of the area that is even over `scale` and a
    ratio of width to height whose logarithm is even over that of `ratio`; the first box that fits is taken, or else the
    largest central one of an allowed ratio. Boxes only grow, so that bilinear interpolation needs no smoothing.

    Args:
        images: ``(N, C, H, W)``, uint8 or floating point of any range.
        generator: Where the boxes come from; on the CPU.
        scale: Smallest and largest share of the image's area, above 0 and at most 1.
        ratio: Smallest and largest ratio of width to height.

    Raises:
        UserError: `scale` or `ratio` is no such pair, or the generator is not on the CPU.
    """
    check(images)
    if not 0 < scale[0] <= scale[1] <= 1:
        raise UserError(f"scale must be two rising numbers above 0 and at most 1, not {scale}")
    if not 0 < ratio[0] <= ratio[1] < math.inf:
        raise UserError(f"ratio must be two rising positive numbers, not {ratio}")
    top, left, height, width = _boxes(images, generator, scale, ratio)
    values = _stretch(_stretch(precise(images), top, height, 2), left, width, 3)
    return like(images, values)


def _boxes(
    images: Tensor, generator: torch.Generator, scale: tuple[float, float], ratio: tuple[float, float]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Top, left, height and width of one box for each image, each ``(N, 1)``, whole numbers in double precision."""
    count, (full_height, full_width) = len(images), images.shape[2:]
    area = full_height * full_width * uniform(generator, *scale, count, _TRIES)
    shape = uniform(generator, math.log(ratio[0]), math.log(ratio[1]), count, _TRIES).exp()
    # The last box is the one to take when no other fits.
    nearest = min(max(full_width / full_height, ratio[0]), ratio[1])
    last_height = min(full_height, max(1, round(full_width / nearest)))
    last_width = min(full_width, max(1, round(full_height * nearest)))
    height = F.pad((area / shape).sqrt().round(), (0, 1), value=last_height)
    width = F.pad((area * shape).sqrt().round(), (0, 1), value=last_width)
    fits = (height >= 1) & (height <= full_height) & (width >= 1) & (width <= full_width)
    first = fits.byte().argmax(1, keepdim=True)
    height, width = height.gather(1, first), width.gather(1, first)
    top = (uniform(generator, 0, 1, count, 1) * (full_height - height + 1)).floor()
    left = (uniform(generator, 0, 1, count, 1) * (full_width - width + 1)).floor()
    central = first == _TRIES
    top = torch.where(central, (full_height - height) // 2, top)
    left = torch.where(central, (full_width - width) // 2, left)
    return top, left, height, width


def _stretch(values: Tensor, start: Tensor, length: Tensor, axis: int) -> Tensor:
    """Fill an axis with the piece of it from `start` on, of `length` pixels, interpolating between two at a time."""
    size = values.shape[axis]
    place = (torch.arange(size) + 0.5) * length / size - 0.5
    place = place.clamp(min=0).minimum(length - 1)  # nothing outside the box is looked at
    before = place.floor()
    after = (before + 1).minimum(length - 1)
    shape = [len(values), 1, 1, 1]
    shape[axis] = size
    left, right = (
        values.take_along_dim((start + step).long().view(shape).to(values.device), axis) for step in (before, after)
    )
    return torch.lerp(left, right, (place - before).view(shape).to(values))
