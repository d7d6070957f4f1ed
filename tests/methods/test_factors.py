"""Factors against Pillow, picture by picture."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from xcnorm.methods.factors import FACTORS, Fields

WITH_PILLOW = {
    "shear_rows": lambda p, v: p.transform(p.size, Image.Transform.AFFINE, (1, v, 0, 0, 1, 0)),
    "shear_columns": lambda p, v: p.transform(p.size, Image.Transform.AFFINE, (1, 0, 0, v, 1, 0)),
    "stretch_contrast": ImageOps.autocontrast,
    "invert": lambda p, v: ImageOps.invert(p),
    "equalise": lambda p, v: ImageOps.equalize(p),
    "solarise": ImageOps.solarize,
    "solarise_added": lambda p, v: ImageOps.solarize(
        Image.fromarray((np.array(p).astype(int) + v).clip(0, 255).astype(np.uint8)), 128
    ),
    "posterise": lambda p, v: ImageOps.posterize(p, max(1, int(v))),
    "contrast": lambda p, v: ImageEnhance.Contrast(p).enhance(v),
    "colour": lambda p, v: ImageEnhance.Color(p).enhance(v),
    "brightness": lambda p, v: ImageEnhance.Brightness(p).enhance(v),
    "sharpness": lambda p, v: ImageEnhance.Sharpness(p).enhance(v),
}


def pictures(count=4, pixels=20):
    """Colourful, dark, of two levels, and of one."""
    levels = torch.randint(0, 256, (count, 3, pixels, pixels), generator=torch.Generator().manual_seed(1)).float()
    levels[1] = (levels[1] ** 2 / 255).floor()
    levels[2] = (levels[2] > 200) * 180.0
    levels[3] = 90.0
    return levels


def fields(count=4, pixels=20):
    return Fields.draw(count, pixels, pixels, torch.Generator().manual_seed(2))


def picture(levels):
    return Image.fromarray(levels.byte().permute(1, 2, 0).numpy())


@pytest.mark.parametrize("name", WITH_PILLOW)
@pytest.mark.parametrize("magnitude", [0, 1, 3, 4, 6, 9, 12, 15, 18, 21, 24, 27, 30])
def test_it_is_pillows(name, magnitude):
    given, factor = pictures(), FACTORS[name]
    value = magnitude / 30 * (factor.high - factor.low) + factor.low
    for sign in (1, -1) if factor.signed else (1,):
        found = factor.apply(given, sign * factor.value(torch.full((4,), magnitude)), fields())
        for levels, made in zip(given, found, strict=True):
            expected = np.array(WITH_PILLOW[name](picture(levels), sign * value)).transpose(2, 0, 1)
            assert np.abs(made.numpy() - expected).max() == 0


def test_salt_is_white_and_black_in_equal_shares_over_all_channels():
    given = torch.full((1, 3, 300, 300), 90.0)
    found = FACTORS["salt"].apply(given, torch.tensor([0.1]), fields(1, 300))
    for level in (0.0, 255.0):
        assert (found == level).float().mean().item() == pytest.approx(0.05, abs=0.004)
        assert torch.equal((found == level)[0, 0], (found == level)[0, 2])
    assert ((found == 90) | (found == 0) | (found == 255)).all()
    assert torch.equal(FACTORS["salt"].apply(given, torch.tensor([0.0]), fields(1, 300)), given)


def test_noise_has_its_deviation():
    given = torch.full((1, 3, 200, 200), 128.0)
    found = FACTORS["noise"].apply(given, torch.tensor([0.05]), fields(1, 200))
    assert (found - 128).std().item() == pytest.approx(0.05 * 255, rel=0.02)
    assert found.mean().item() == pytest.approx(127.5, abs=0.2)  # rounded down
    assert torch.equal(found, found.floor())


@pytest.mark.parametrize("name", FACTORS)
def test_each_image_has_a_magnitude_of_its_own(name):
    given, factor, noise = pictures(), FACTORS[name], fields()
    value = factor.value(torch.tensor([0.0, 7.0, 19.0, 30.0]))
    found = factor.apply(given, value, noise)
    for place in range(4):
        own = Fields(*(field[place : place + 1] for field in noise))
        alone = factor.apply(given[place : place + 1], value[place : place + 1], own)
        torch.testing.assert_close(found[place : place + 1], alone, rtol=0, atol=0)
    assert ((found >= 0) & (found <= 255) & (found == found.floor())).all()


def test_there_are_those_of_the_published_program():
    assert len(FACTORS) == 14
    assert FACTORS["contrast"].value(torch.tensor([0.0, 15.0, 30.0])).tolist() == pytest.approx([0.1, 1.0, 1.9])
