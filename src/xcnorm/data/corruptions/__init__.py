"""Corruptions: nineteen ways for a picture to go wrong, at five severities, as in CIFAR-10-C and ImageNet-C.

A corruption is a file of this package that holds a `CORRUPTION`; its name is the file's.

Example:
    >>> import torch
    >>> from xcnorm.data import corruptions
    >>> images = torch.full((2, 3, 32, 32), 128, dtype=torch.uint8)
    >>> corruptions.corrupt(images, "contrast", severity=5).shape
    torch.Size([2, 3, 32, 32])
"""

from xcnorm.data.corruptions.categories import CATEGORIES
from xcnorm.data.corruptions.corruption import Corruption, Shape
from xcnorm.data.corruptions.engine import apply, corrupt, draw, names

__all__ = ["CATEGORIES", "Corruption", "Shape", "apply", "corrupt", "draw", "names"]
