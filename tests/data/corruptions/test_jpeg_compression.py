"""JPEG: the same bytes as from a real codec."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from tests.data.corruptions.checks import SIZES, pictures
from xcnorm.data import corruptions

QUALITY = {"cifar": (80, 65, 58, 50, 40), "imagenet": (25, 18, 15, 10, 7)}


def codec(images, quality):
    """Through Pillow, which is to say libjpeg."""
    result = []
    for image in images:
        file = io.BytesIO()
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(file, "JPEG", quality=quality)
        result.append(np.array(Image.open(file)))
    return torch.from_numpy(np.stack(result)).permute(0, 3, 1, 2)


@pytest.mark.parametrize("constants", SIZES)
@pytest.mark.parametrize("severity", range(1, 6))
@pytest.mark.parametrize("size", [(32, 32), (40, 56), (33, 47), (8, 8), (4, 4), (5, 9), (26, 4), (7, 50)], ids=str)
def test_same_bytes_as_a_codec(size, severity, constants):
    noise = torch.randint(0, 256, (2, 3, *size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    extremes = (noise > 127).to(torch.uint8) * 255
    images = torch.cat([pictures(4, *size), noise, extremes])
    actual = corruptions.corrupt(images, "jpeg_compression", severity, constants=constants)
    assert torch.equal(actual, codec(images, QUALITY[constants][severity - 1]))


def test_larger_errors_with_severity():
    images = pictures(8, 32, 32)
    qualities = [(constants, severity) for constants in SIZES for severity in range(1, 6)]
    errors = [
        (corruptions.corrupt(images, "jpeg_compression", s, constants=c).float() - images).square().mean().item()
        for c, s in qualities
    ]
    assert errors == sorted(errors)
