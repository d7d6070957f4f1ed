"""The corruption: two tables of constants and two functions; and all of them by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from xcnorm.data.streams import Stream
from xcnorm.registry import Registry

Fields = dict[str, Tensor]


class Shape(NamedTuple):
    """Of the images to be corrupted. A grey image has one channel here; where it is corrupted it has three."""

    channels: int
    height: int
    width: int


def draw_nothing(stream: Stream, shape: Shape, constants: Any) -> Fields:
    """For a corruption with nothing random in it."""
    return {}


Draw = Callable[[Stream, Shape, Any], Fields]
Apply = Callable[[Tensor, Fields, Any], Tensor]


@dataclass(frozen=True)
class Corruption:
    """One way for a picture to go wrong, at five severities.

    Random fields are drawn apart from being applied, so that the same ones can be given to two implementations.

    Attributes:
        category: ``"noise"``, ``"blur"``, ``"weather"``, ``"digital"``, or one of its own.
        cifar: The constants of each severity for images of 32 pixels (CIFAR-10-C).
        imagenet: The constants of each severity for images of 224 pixels (ImageNet-C).
        apply: Corrupts: from images ``(N, 3, H, W)``, float32, whole multiples of 1/255 in [0, 1], the fields on the
            same device, and the constants, to images in the same form; the caller clips to [0, 1] and cuts off to 8
            bits. Image `i` of the result depends on image `i` and row `i` of the fields alone.
        draw: Draws what is random: from a stream of random numbers for each image, the images' shape and the
            constants of the severity to named tensors whose first axis is the image.
        published: Its place in the published list, whose first fifteen are the standard ones; None outside of it.
    """

    category: str
    cifar: tuple[Any, ...]
    imagenet: tuple[Any, ...]
    apply: Apply
    draw: Draw = draw_nothing
    published: int | None = None


CORRUPTIONS: Registry[Corruption] = Registry("corruption", "xcnorm.data.corruptions")


def register_corruption(
    name: str,
    category: str,
    *,
    cifar: tuple[Any, ...],
    imagenet: tuple[Any, ...],
    draw: Draw = draw_nothing,
    published: int | None = None,
) -> Callable[[Apply], Apply]:
    """Make a function known as the `Corruption.apply` of a corruption; the arguments are the other attributes."""

    def register(apply: Apply) -> Apply:
        CORRUPTIONS.register(name, Corruption(category, cifar, imagenet, apply, draw, published))
        return apply

    return register


def names() -> tuple[str, ...]:
    """The corruptions: the fifteen standard ones in their published order, the four extra ones, then any others."""
    places = {name: corruption.published or math.inf for name, corruption in CORRUPTIONS.items()}
    return tuple(sorted(places, key=lambda name: (places[name], name)))


def standard() -> tuple[str, ...]:
    """The fifteen that tables are made of, in their published order."""
    return names()[:15]


def published() -> tuple[str, ...]:
    """The nineteen of CIFAR-10-C, in their published order: the standard ones, and four for validation."""
    return names()[:19]
