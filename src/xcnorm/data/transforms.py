"""Batches of images in, batches of images out, on any device.

Images are ``(N, C, H, W)`` with one grey channel or three of red, green and blue: uint8, or floating point with values
from 0 to 1. Each function says which it takes; none changes what it was given.

What is random is drawn on the CPU, from the generator that is passed in, as a few numbers for each image, and only then
moved to where the images are. So a seed means the same on every device, and the generator's state in a checkpoint is
all that a resumed run needs. Flips and crops come out identical everywhere; what is computed in floating point may
differ between devices in the last bit, and after rounding to 8 bits by one level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from xcnorm.data import resampling
from xcnorm.data.colour import grey_level
from xcnorm.errors import UserError, unknown_name

_CHUNK = 1 << 18  # values resized at a time; what fits in a processor's cache goes fastest
_FILTERS = {"bilinear": resampling.TRIANGLE, "lanczos": resampling.LANCZOS}
_TRIES = 10  # boxes drawn for each image before the largest central one is taken


def resize(images: Tensor, size: int, resample: Literal["bilinear", "lanczos"] = "bilinear") -> Tensor:
    """Resize to a square, with Pillow's filters: the bits are those of Pillow's ``Image.resize``, on every device.

    (Pillow from version 13 on begins with the columns where an image is shrunk more in height than in width, and may
    then differ by some levels.)

    Args:
        images: ``(N, C, H, W)``, uint8.
        size: Height and width of the result.
        resample: ``"bilinear"`` (a triangle, as wide as shrinking needs) or ``"lanczos"``.

    Raises:
        UserError: The images are not uint8, the size is not positive, or there is no such filter.
    """
    _check(images)
    if images.dtype != torch.uint8:
        raise UserError(f"only uint8 images can be resized, not {images.dtype}; resize before to_float")
    if size < 1:
        raise UserError(f"images cannot be resized to {size} pixels; give a size of 1 or more")
    if resample not in _FILTERS:
        raise UserError(unknown_name("resample", resample, _FILTERS))
    height, width = images.shape[2:]
    if height == width == size:
        return images.clone()
    across, down = (resampling.weights(old, size, _FILTERS[resample]).to(images.device) for old in (width, height))
    result = images.new_empty(*images.shape[:2], size, size)
    chunk = max(1, _CHUNK // (images.shape[1] * max(height, size) * max(width, size)))
    for part, whole in zip(result.split(chunk), images.split(chunk), strict=True):
        part.copy_(resampling.resample(whole.double(), across, down))
    return result


def to_float(images: Tensor) -> Tensor:
    """uint8 from 0 to 255 to float32 from 0 to 1.

    Raises:
        UserError: The images are not uint8.
    """
    _check(images)
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
    _check(images)
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
    _check(images, colour=True)
    return images.expand(-1, 3, -1, -1)


def random_flip(images: Tensor, generator: torch.Generator, p: float = 0.5) -> Tensor:
    """Mirror each image, left to right, with probability `p`.

    Args:
        images: ``(N, C, H, W)``, uint8 or floating point of any range.
        generator: Where the coins come from; on the CPU.
        p: The probability.

    Raises:
        UserError: `p` is not a probability, or the generator is not on the CPU.
    """
    _check(images)
    return torch.where(_coins(images, generator, p), images.flip(3), images)


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
    _check(images)
    if padding < 0:
        raise UserError(f"padding must be 0 or more, not {padding}")
    height, width = images.shape[2:]
    corner = torch.randint(0, 2 * padding + 1, (len(images), 2), generator=_on_cpu(generator))
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
    _check(images)
    if not 0 < scale[0] <= scale[1] <= 1:
        raise UserError(f"scale must be two rising numbers above 0 and at most 1, not {scale}")
    if not 0 < ratio[0] <= ratio[1] < math.inf:
        raise UserError(f"ratio must be two rising positive numbers, not {ratio}")
    top, left, height, width = _boxes(images, generator, scale, ratio)
    values = _stretch(_stretch(_precise(images), top, height, 2), left, width, 3)
    return _like(images, values)


def colour_jitter(
    images: Tensor,
    generator: torch.Generator,
    brightness: float = 0.4,
    contrast: float = 0.4,
    saturation: float = 0.4,
    hue: float = 0.4,
) -> Tensor:
    """Change brightness, contrast, saturation and hue of each image by random amounts, in random order.

    The changes are torchvision's: the first three blend the image with black, with its mean grey level, and with its
    grey version, by a factor that is even over ``1 - amount .. 1 + amount`` (never below 0); the last turns the colour
    circle by a share of up to `hue` either way. Every image has an order of its own, as if it were alone. Values are
    cut to their range after each change, and rounded once, at the end. Grey images have no saturation and no hue.

    Args:
        images: ``(N, 1 or 3, H, W)``, uint8 or floating point from 0 to 1.
        generator: Where amounts and orders come from; on the CPU.
        brightness: 0 or more.
        contrast: 0 or more.
        saturation: 0 or more.
        hue: From 0 to 0.5, which is half the circle.

    Raises:
        UserError: An amount is out of its range, the images have neither one channel nor three, or the generator is not
            on the CPU.
    """
    _check(images, colour=True)
    for name, amount in (("brightness", brightness), ("contrast", contrast), ("saturation", saturation)):
        if not 0 <= amount < math.inf:
            raise UserError(f"{name} must be 0 or more, not {amount}")
    if not 0 <= hue <= 0.5:
        raise UserError(f"hue must be from 0 to 0.5, not {hue}")
    ranges = [(max(0, 1 - amount), 1 + amount) for amount in (brightness, contrast, saturation)] + [(-hue, hue)]
    amounts = [_uniform(generator, low, high, len(images)) for low, high in ranges]
    orders = _uniform(generator, 0, 1, len(images), len(_CHANGES)).argsort(1)
    top = 255 if images.dtype == torch.uint8 else 1
    values = _precise(images) / top  # a copy in either case
    for turn in orders.unbind(1):
        for number, change in enumerate(_CHANGES):
            chosen = (turn == number).nonzero().squeeze(1)
            factor = amounts[number][chosen, None, None, None].to(values)
            place = chosen.to(values.device)
            values[place] = change(values[place], factor)
    return _like(images, values * top)


def random_grey(images: Tensor, generator: torch.Generator, p: float = 0.1) -> Tensor:
    """Take the colour out of each image with probability `p`; the number of channels stays.

    Args:
        images: ``(N, 1 or 3, H, W)``, uint8 or floating point of any range; those of one channel stay as they are.
        generator: Where the coins come from; on the CPU.
        p: The probability.

    Raises:
        UserError: `p` is not a probability, the images have neither one channel nor three, or the generator is not on
            the CPU.
    """
    _check(images, colour=True)
    grey = _like(images, _grey(_precise(images)))
    return torch.where(_coins(images, generator, p), grey, images)


def _check(images: Tensor, colour: bool = False) -> None:
    if images.ndim != 4 or 0 in images.shape[1:]:
        raise UserError(f"images must have the shape (N, C, H, W), not {tuple(images.shape)}")
    if images.dtype != torch.uint8 and not images.is_floating_point():
        raise UserError(f"images must be uint8 or floating point, not {images.dtype}")
    if colour and images.shape[1] not in (1, 3):
        raise UserError(f"images must have one channel or three, not {images.shape[1]}")


def _precise(images: Tensor) -> Tensor:
    """At least single precision."""
    return images if images.dtype == torch.float64 else images.float()


def _like(images: Tensor, values: Tensor) -> Tensor:
    """Back to the dtype of the images; to 8 bits by rounding."""
    return (values.round() if images.dtype == torch.uint8 else values).to(images.dtype)


def _per_channel(name: str, numbers: float | Sequence[float], images: Tensor) -> Tensor:
    """``(1 or C, 1, 1)``, still on the CPU and in double precision."""
    values = torch.as_tensor(numbers, dtype=torch.float64).reshape(-1, 1, 1)
    if len(values) not in (1, images.shape[1]):
        raise UserError(f"{name} has {len(values)} numbers for {images.shape[1]} channels; give one, or one for each")
    return values


# What is random


def _on_cpu(generator: torch.Generator) -> torch.Generator:
    if generator.device.type != "cpu":
        raise UserError(f"the generator must be on the CPU, not on {generator.device}; the images may be anywhere")
    return generator


def _uniform(generator: torch.Generator, low: float, high: float, *shape: int) -> Tensor:
    return low + (high - low) * torch.rand(*shape, generator=_on_cpu(generator), dtype=torch.float64)


def _coins(images: Tensor, generator: torch.Generator, p: float) -> Tensor:
    """``(N, 1, 1, 1)``, true with probability `p`."""
    if not 0 <= p <= 1:
        raise UserError(f"p must be from 0 to 1, not {p}")
    return (_uniform(generator, 0, 1, len(images), 1, 1, 1) < p).to(images.device)


# Boxes


def _boxes(
    images: Tensor, generator: torch.Generator, scale: tuple[float, float], ratio: tuple[float, float]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Top, left, height and width of one box for each image, each ``(N, 1)``, whole numbers in double precision."""
    count, (full_height, full_width) = len(images), images.shape[2:]
    area = full_height * full_width * _uniform(generator, *scale, count, _TRIES)
    shape = _uniform(generator, math.log(ratio[0]), math.log(ratio[1]), count, _TRIES).exp()
    # The last box is the one to take when no other fits.
    nearest = min(max(full_width / full_height, ratio[0]), ratio[1])
    last_height = min(full_height, max(1, round(full_width / nearest)))
    last_width = min(full_width, max(1, round(full_height * nearest)))
    height = F.pad((area / shape).sqrt().round(), (0, 1), value=last_height)
    width = F.pad((area * shape).sqrt().round(), (0, 1), value=last_width)
    fits = (height >= 1) & (height <= full_height) & (width >= 1) & (width <= full_width)
    first = fits.byte().argmax(1, keepdim=True)
    height, width = height.gather(1, first), width.gather(1, first)
    top = (_uniform(generator, 0, 1, count, 1) * (full_height - height + 1)).floor()
    left = (_uniform(generator, 0, 1, count, 1) * (full_width - width + 1)).floor()
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


# Colour; values from 0 to 1


def _grey(values: Tensor) -> Tensor:
    """One channel, weighted as in Pillow."""
    if values.shape[1] == 1:
        return values
    return grey_level(*values.split(1, 1))


def _brighten(values: Tensor, factor: Tensor) -> Tensor:
    return (values * factor).clamp(0, 1)


def _contrast(values: Tensor, factor: Tensor) -> Tensor:
    return torch.lerp(_grey(values).mean((1, 2, 3), keepdim=True), values, factor).clamp(0, 1)


def _saturate(values: Tensor, factor: Tensor) -> Tensor:
    return torch.lerp(_grey(values), values, factor).clamp(0, 1)


def _turn_hue(values: Tensor, share: Tensor) -> Tensor:
    """Turn the colour circle; largest and smallest channel, and so value and saturation, stay as they are."""
    if values.shape[1] == 1:
        return values
    red, green, blue = values.split(1, 1)
    largest, smallest = values.amax(1, keepdim=True), values.amin(1, keepdim=True)
    chroma = largest - smallest
    divisor = torch.where(chroma == 0, 1, chroma)  # a grey pixel has no hue; any will do
    sextant = torch.where(
        largest == red,
        (green - blue) / divisor,
        torch.where(largest == green, (blue - red) / divisor + 2, (red - green) / divisor + 4),
    )
    # Around the circle a channel falls from the largest value to the smallest, over one sixth, and rises again.
    around = (sextant + 6 * share + torch.tensor([5.0, 3.0, 1.0]).view(3, 1, 1).to(values)) % 6
    return largest - chroma * around.minimum(4 - around).clamp(0, 1)


_CHANGES = (_brighten, _contrast, _saturate, _turn_hue)
