"""Brightness, saturation and contrast."""

import pytest
import torch

from tests.data.corruptions import reference_colour as reference
from tests.data.corruptions.checks import SIZES, assert_like_reference, pictures
from xcnorm.data import corruptions

NAMES = ["brightness", "saturate", "contrast"]


@pytest.mark.parametrize("constants", SIZES)
@pytest.mark.parametrize("severity", range(1, 6))
@pytest.mark.parametrize("name", NAMES)
def test_like_reference(name, severity, constants):
    assert_like_reference(name, getattr(reference, name), severity, constants, share=0.0005)


@pytest.mark.parametrize("constants", SIZES)
def test_brighter_with_severity(constants):
    images = pictures(4, 32, 32)
    means = [corruptions.corrupt(images, "brightness", s, constants=constants).float().mean() for s in range(1, 6)]
    assert images.float().mean() < means[0]
    assert means == sorted(means)


@pytest.mark.parametrize("constants", SIZES)
def test_less_contrast_with_severity(constants):
    images = pictures(4, 32, 32)
    spread = [
        corruptions.corrupt(images, "contrast", s, constants=constants).float().var((2, 3)).mean() for s in range(1, 6)
    ]
    assert images.float().var((2, 3)).mean() > spread[0]
    assert spread == sorted(spread, reverse=True)


@pytest.mark.parametrize("name", NAMES)
def test_every_level_of_grey(name):
    """Grey has no hue, and black no saturation: the divisions by zero must not show."""
    images = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16).expand(1, 3, 16, 16)
    result = corruptions.corrupt(images, name, 5, constants="cifar").int()
    red, green, blue = result[0].flatten(1)
    assert torch.equal(green, blue)
    level = torch.arange(256)
    if name == "brightness":
        assert torch.equal(red, green)
        assert ((red - (level + 76.5).clamp(max=255)).abs() < 1).all()
    elif name == "saturate":
        assert torch.equal(red, level.int())
        assert ((green - 0.8 * level).abs() < 1).all()
    else:
        assert ((red - (127.5 + 0.15 * (level - 127.5))).abs() < 1).all()
