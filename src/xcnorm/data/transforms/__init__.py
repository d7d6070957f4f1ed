"""Batches of images in, batches of images out, on any device.

Images are ``(N, C, H, W)`` with one grey channel or three of red, green and blue: uint8, or floating point with values
from 0 to 1. Each function says which it takes; none changes what it was given.

What is random is drawn on the CPU, from the generator that is passed in, as a few numbers for each image, and only then
moved to where the images are. So a seed means the same on every device, and the generator's state in a checkpoint is
all that a resumed run needs. Flips and crops come out identical everywhere; what is computed in floating point may
differ between devices in the last bit, and after rounding to 8 bits by one level.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from torch import Tensor

from xcnorm.data.transforms.colours import colour_jitter, random_grey
from xcnorm.data.transforms.crops import random_crop, random_flip, random_resized_crop
from xcnorm.data.transforms.values import grey_to_rgb, normalise, resize, to_float

RANDOM: Mapping[str, Callable[..., Tensor]] = MappingProxyType(
    {
        "flip": random_flip,
        "crop": random_crop,
        "resized_crop": random_resized_crop,
        "jitter": colour_jitter,
        "grey": random_grey,
    }
)
"""What an experiment's ``data.augment`` may name: each takes a batch and a generator."""

__all__ = [
    "RANDOM",
    "colour_jitter",
    "grey_to_rgb",
    "normalise",
    "random_crop",
    "random_flip",
    "random_grey",
    "random_resized_crop",
    "resize",
    "to_float",
]
