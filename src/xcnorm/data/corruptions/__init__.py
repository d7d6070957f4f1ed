"""Corruptions: nineteen ways for a picture to go wrong, at five severities, as in CIFAR-10-C and ImageNet-C.

A corruption is registered by `register_corruption`, in a file of this package or in a plugin.

Example:
    >>> import torch
    >>> from xcnorm.data import corruptions
    >>> images = torch.full((2, 3, 32, 32), 128, dtype=torch.uint8)
    >>> corruptions.corrupt(images, "contrast", severity=5).shape
    torch.Size([2, 3, 32, 32])
"""

from xcnorm.data.corruptions.categories import CATEGORIES
from xcnorm.data.corruptions.corruption import (
    Corruption,
    Fields,
    Shape,
    names,
    published,
    register_corruption,
    standard,
)
from xcnorm.data.corruptions.module import Corrupt
from xcnorm.data.corruptions.run import apply, corrupt, draw

__all__ = [
    "CATEGORIES",
    "Corrupt",
    "Corruption",
    "Fields",
    "Shape",
    "apply",
    "corrupt",
    "draw",
    "names",
    "published",
    "register_corruption",
    "standard",
]
