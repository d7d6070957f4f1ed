"""Operations on pictures against Pillow's, which round to 8 bits."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from xcnorm.methods import operations

AFFINE = Image.Transform.AFFINE
BILINEAR = Image.Resampling.BILINEAR
PILLOW = {
    "autocontrast": lambda image, _: ImageOps.autocontrast(image),
    "equalize": lambda image, _: ImageOps.equalize(image),
    "posterize": lambda image, bits: ImageOps.posterize(image, int(bits)),
    "solarize": lambda image, threshold: ImageOps.solarize(image, int(threshold)),
    "brightness": lambda image, factor: ImageEnhance.Brightness(image).enhance(factor),
    "contrast": lambda image, factor: ImageEnhance.Contrast(image).enhance(factor),
    "saturation": lambda image, factor: ImageEnhance.Color(image).enhance(factor),
    "sharpness": lambda image, factor: ImageEnhance.Sharpness(image).enhance(factor),
    "rotate": lambda image, degrees: image.rotate(degrees, resample=BILINEAR),
    "shear_x": lambda image, amount: image.transform(image.size, AFFINE, (1, amount, 0, 0, 1, 0), BILINEAR),
    "shear_y": lambda image, amount: image.transform(image.size, AFFINE, (1, 0, 0, amount, 1, 0), BILINEAR),
    "translate_x": lambda image, pixels: image.transform(image.size, AFFINE, (1, 0, pixels, 0, 1, 0), BILINEAR),
    "translate_y": lambda image, pixels: image.transform(image.size, AFFINE, (1, 0, 0, 0, 1, pixels), BILINEAR),
}
AMOUNTS = {
    "posterize": (1, 3, 4, 8),
    "solarize": (0, 100, 180, 256),
    "brightness": (0.1, 0.8, 1.0, 1.9),
    "contrast": (0.1, 0.8, 1.0, 1.9),
    "saturation": (0.1, 0.8, 1.0, 1.9),
    "sharpness": (0.1, 0.8, 1.0, 1.9),
    "rotate": (-17.0, 0.0, 8.0, 100.0),
    "shear_x": (-0.3, 0.0, 0.11, 0.9),
    "shear_y": (-0.3, 0.0, 0.11, 0.9),
    "translate_x": (-3.0, 0.0, 2.0, 9.0),
    "translate_y": (-3.0, 0.0, 2.0, 9.0),
}
EXACT = ("posterize", "solarize", "equalize")


def pictures(height=13, width=18):
    """Smooth, of few levels and of full range; one that is black but for a square."""
    generator = torch.Generator().manual_seed(5)
    few = torch.randint(40, 200, (2, 3, 4, 5), generator=generator)
    some = torch.nn.functional.interpolate(few.float(), (height, width), mode="bilinear").round()
    noise = torch.randint(0, 256, (1, 3, height, width), generator=generator)
    square = torch.zeros(1, 3, height, width)
    square[..., 3:9, 5:12] = 230
    return torch.cat([some, noise, square]).byte()


@pytest.mark.parametrize("name", PILLOW)
def test_each_picture_is_treated_as_pillow_treats_it(name):
    given, amounts = pictures(), torch.tensor(AMOUNTS.get(name, (0.0,) * 4))
    found = getattr(operations, name)(given.double() / 255, amounts.double())
    for picture, amount, actual in zip(given, amounts.tolist(), found, strict=True):
        expected = PILLOW[name](Image.fromarray(picture.permute(1, 2, 0).numpy()), amount)
        distance = np.abs(actual.permute(1, 2, 0).numpy() * 255 - np.asarray(expected, dtype=float))
        assert distance.max() <= (1e-6 if name in EXACT else 2)
        assert distance.mean() <= 0.6


def test_the_empty_border_of_a_shifted_picture_is_black():
    given = torch.ones(1, 3, 6, 6)
    found = operations.translate_x(given, torch.tensor([2.0]))
    assert torch.equal(found[0, 0, 0], torch.tensor([1.0, 1, 1, 1, 0, 0]))


def test_each_picture_has_an_operation_of_its_own():
    given, amounts = pictures().float() / 255, torch.tensor([0.5, 3.0, 0.0, 2.0])
    table = {0: operations.brightness, 2: operations.translate_x}
    found = operations.apply_each(given, table, torch.tensor([0, 2, -1, 2]), amounts)
    assert torch.equal(found[:1], operations.brightness(given[:1], amounts[:1]))
    assert torch.equal(found[1:2], operations.translate_x(given[1:2], amounts[1:2]))
    assert torch.equal(found[2], given[2])
    assert torch.equal(found[3:], operations.translate_x(given[3:], amounts[3:]))
