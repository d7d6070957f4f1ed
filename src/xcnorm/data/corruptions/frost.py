"""Frost: a random piece of a picture of an icy window, laid over the image."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from xcnorm.data.corruptions.corruption import CORRUPTIONS, Corruption, Fields, Shape, register_corruption
from xcnorm.data.streams import Stream
from xcnorm.data.synthesis.frost import frost_pictures
from xcnorm.errors import UserError

_USED = 5  # the published generator has six pictures and never takes the last one


class _Constants(NamedTuple):
    """How much of the image and of the frost is seen, and by what number the sides of the picture are divided."""

    image: float
    frost: float
    shrinkage: int


class _Atlas(NamedTuple):
    """Pictures in a row.

    Attributes:
        values: ``(3, pixels of all pictures)``, uint8.
        start: Where each picture begins.
        height: Of each picture.
        width: Of each picture.
    """

    values: Tensor
    start: Tensor
    height: Tensor
    width: Tensor


def with_pictures(pictures: tuple[Tensor, ...]) -> Corruption:
    """Frost from pictures of one's own.

    Args:
        pictures: Each ``(3, H, W)``, uint8; the first five are used. Each must be larger than the images along both
            sides, and still so after the constants of CIFAR-10-C have shrunk it to a fifth.

    Raises:
        UserError: There is no picture, or one is not as described. That one is too small is found out when the
            corruption is applied.
    """
    if not pictures:
        raise UserError("frost needs at least one picture; none was given")
    for number, picture in enumerate(pictures, start=1):
        if picture.ndim != 3 or picture.shape[0] != 3 or picture.dtype != torch.uint8:
            found = f"{picture.dtype} of {tuple(picture.shape)}"
            raise UserError(f"frost picture {number} must be uint8 of (3, H, W), not {found}")
    pictures = pictures[:_USED]

    @cache
    def atlas(shrinkage: int, device: torch.device) -> _Atlas:
        return _atlas(pictures, shrinkage, device)

    def apply(images: Tensor, fields: Fields, constants: _Constants) -> Tensor:
        least = [(size + 1) * constants.shrinkage for size in images.shape[2:]]
        for number, picture in enumerate(pictures, start=1):
            height, width = picture.shape[1:]
            if height < least[0] or width < least[1]:
                raise UserError(
                    f"frost picture {number} is {height}x{width}; "
                    f"for these images it must be at least {least[0]}x{least[1]}"
                )
        return _lay_over(images, fields, constants, atlas(constants.shrinkage, images.device))

    return replace(CORRUPTIONS["frost"], apply=apply)


def _draw(stream: Stream, shape: Shape, constants: _Constants) -> Fields:
    # Numbers between 0 and 1, because how many pictures there are, and how large, is not known here.
    return {"picture": stream.uniform(), "top": stream.uniform(), "left": stream.uniform()}


@register_corruption(
    "frost",
    "weather",
    published=9,
    cifar=(
        _Constants(1.00, 0.20, shrinkage=5),
        _Constants(1.00, 0.30, shrinkage=5),
        _Constants(0.90, 0.40, shrinkage=5),
        _Constants(0.85, 0.40, shrinkage=5),
        _Constants(0.75, 0.45, shrinkage=5),
    ),
    imagenet=(
        _Constants(1.00, 0.40, shrinkage=1),
        _Constants(0.80, 0.60, shrinkage=1),
        _Constants(0.70, 0.70, shrinkage=1),
        _Constants(0.65, 0.70, shrinkage=1),
        _Constants(0.60, 0.75, shrinkage=1),
    ),
    draw=_draw,
)
def _apply(images: Tensor, fields: Fields, constants: _Constants) -> Tensor:
    return _lay_over(images, fields, constants, _generated(constants.shrinkage, images.device))


def _lay_over(images: Tensor, fields: Fields, constants: _Constants, atlas: _Atlas) -> Tensor:
    # In double precision these products are exact, so that every device chooses the same piece.
    picture = (fields["picture"].double() * len(atlas.start)).long()
    start, rows, columns = (of[picture].view(-1, 1, 1) for of in (atlas.start, atlas.height, atlas.width))
    height, width = images.shape[2:]
    top = (fields["top"].double().view(-1, 1, 1) * (rows - height).clamp(min=1)).long()
    left = (fields["left"].double().view(-1, 1, 1) * (columns - width).clamp(min=1)).long()
    y = _mirrored(top + torch.arange(height, device=images.device).unsqueeze(1), rows)
    x = _mirrored(left + torch.arange(width, device=images.device), columns)
    frost = atlas.values[:, start + y * columns + x].transpose(0, 1)
    return constants.image * images + constants.frost / 255 * frost


def _mirrored(position: Tensor, size: Tensor) -> Tensor:
    """Where a generated picture is smaller than an image, it goes on as its mirror image."""
    position = position % (2 * size)
    return torch.minimum(position, 2 * size - 1 - position)


def _atlas(pictures: tuple[Tensor, ...], shrinkage: int, device: torch.device) -> _Atlas:
    # Linear interpolation at the centre of each 5x5 pixels (or 1x1) comes down to the pixel that lies there.
    every = slice(shrinkage // 2, None, shrinkage)
    small = [picture[:, every, every].to(device) for picture in pictures]
    height, width = torch.tensor([picture.shape[1:] for picture in small], device=device).T
    start = (height * width).cumsum(0) - height * width
    return _Atlas(torch.cat([picture.flatten(1) for picture in small], 1), start, height, width)


@cache
def _generated(shrinkage: int, device: torch.device) -> _Atlas:
    return _atlas(frost_pictures(_USED, 1024, 1024, seed=0), shrinkage, device)
