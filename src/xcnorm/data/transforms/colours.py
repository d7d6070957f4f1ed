"""Random changes of colour."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from xcnorm.data.colour import grey_level
from xcnorm.data.transforms._shared import check, coins, like, precise, uniform
from xcnorm.errors import UserError


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
    check(images, colour=True)
    for name, amount in (("brightness", brightness), ("contrast", contrast), ("saturation", saturation)):
        if not 0 <= amount < math.inf:
            raise UserError(f"{name} must be 0 or more, not {amount}")
    if not 0 <= hue <= 0.5:
        raise UserError(f"hue must be from 0 to 0.5, not {hue}")
    ranges = [(max(0, 1 - amount), 1 + amount) for amount in (brightness, contrast, saturation)] + [(-hue, hue)]
    amounts = [uniform(generator, low, high, len(images)) for low, high in ranges]
    orders = uniform(generator, 0, 1, len(images), len(_CHANGES)).argsort(1)
    top = 255 if images.dtype == torch.uint8 else 1
    values = precise(images) / top  # a copy in either case
    for turn in orders.unbind(1):
        for number, change in enumerate(_CHANGES):
            chosen = (turn == number).nonzero().squeeze(1)
            factor = amounts[number][chosen, None, None, None].to(values)
            place = chosen.to(values.device)
            values[place] = change(values[place], factor)
    return like(images, values * top)


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
    check(images, colour=True)
    grey = like(images, _grey(precise(images)))
    return torch.where(coins(images, generator, p), grey, images)


def turn_hue(values: Tensor, share: Tensor) -> Tensor:
    """Turn the colour circle; largest and smallest channel, and so value and saturation, stay as they are.

    Args:
        values: ``(N, 1 or 3, H, W)``, floating point from 0 to 1; those of one channel have no hue.
        share: By which share of the circle; anything that broadcasts.
    """
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


# Below, values are from 0 to 1.


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


_CHANGES = (_brighten, _contrast, _saturate, turn_hue)
