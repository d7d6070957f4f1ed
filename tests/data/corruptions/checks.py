"""Images to corrupt, and what every corruption must keep to."""

import numpy as np
import torch
from PIL import Image

from xcnorm.data import corruptions
from xcnorm.data.corruptions import Shape

SIZES = {"cifar": (32, 32), "imagenet": (40, 56)}
"""For each set of constants a size to test it at; the second one is not square."""


def pictures(count, height, width, seed=0):
    """Smooth colours, a grey, a black and a white patch, hard edges and some noise; ``(N, 3, H, W)``, uint8."""
    generator = np.random.default_rng(seed)
    result = []
    for _ in range(count):
        small = generator.integers(0, 256, (5, 6, 3)).astype(np.uint8)
        large = np.array(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)).astype(int)
        large += generator.integers(-8, 9, large.shape)
        for value in (0, 255, generator.integers(1, 255)):
            top, left = generator.integers(0, height - 3), generator.integers(0, width - 3)
            large[top : top + height // 5, left : left + width // 4] = value
        result.append(large.clip(0, 255).astype(np.uint8))
    return torch.from_numpy(np.stack(result)).permute(0, 3, 1, 2).contiguous()


def eight_bits(values):
    """Clipped to [0, 1] and cut off to 8 bits; what is whole but for rounding errors is kept."""
    return np.floor(np.clip(values, 0, 1) * 255 + 1e-3).astype(np.uint8)


def assert_same_pictures(actual, expected, share=0.005):
    """Equal, but for one grey level at a small share of the values."""
    difference = np.abs(np.asarray(actual).astype(int) - np.asarray(expected).astype(int))
    assert difference.max() <= 1
    assert (difference > 0).mean() <= share


def assert_like_reference(name, reference, severity, constants, share=0.005):
    """Compare with a function for one image: of ``(H, W, 3)`` in [0, 1], fields, severity and name of the constants."""
    height, width = SIZES[constants]
    images, index = pictures(3, height, width), torch.tensor([5, 0, 77])
    fields = corruptions.draw(name, severity, Shape(3, height, width), index, seed=3, constants=constants)
    actual = corruptions.apply(images, name, severity, fields, constants=constants)
    expected = [
        reference(
            image.permute(1, 2, 0).numpy() / 255, {k: v[i].numpy() for k, v in fields.items()}, severity, constants
        )
        for i, image in enumerate(images)
    ]
    assert_same_pictures(actual.permute(0, 2, 3, 1), eight_bits(np.stack(expected)), share)
