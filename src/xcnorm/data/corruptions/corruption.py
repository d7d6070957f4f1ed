"""What a corruption is: two tables of constants, and two functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from xcnorm.data.streams import Stream

Fields = dict[str, Tensor]


class Shape(NamedTuple):
    """Of the images to be corrupted. A grey image has one channel here; where it is corrupted it has three."""

    channels: int
    height: int
    width: int


@dataclass(frozen=True)
class Corruption:
    """One way for a picture to go wrong, at five severities.

    Random fields are drawn apart from being applied, so that the same ones can be given to two implementations.

    Attributes:
        cifar: The constants of each severity for images of 32 pixels (CIFAR-10-C).
        imagenet: The constants of each severity for images of 224 pixels (ImageNet-C).
        draw: Draws what is random: from a stream of random numbers for each image, the images' shape and the
            constants of the severity to named tensors whose first axis is the image.
        apply: Corrupts: from images ``(N, 3, H, W)``, float32, whole multiples of 1/255 in [0, 1], the fields on the
            same device, and the constants, to images in the same form; the caller clips to [0, 1] and cuts off to 8
            bits. Image `i` of the result depends on image `i` and row `i` of the fields alone.
    """

    cifar: tuple[Any, ...]
    imagenet: tuple[Any, ...]
    draw: Callable[[Stream, Shape, Any], Fields]
    apply: Callable[[Tensor, Fields, Any], Tensor]


def draw_nothing(stream: Stream, shape: Shape, constants: Any) -> Fields:
    """For a corruption with nothing random in it."""
    return {}
