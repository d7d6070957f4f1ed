"""Negatives and low contrast, against arithmetic by hand."""

from fractions import Fraction

import pytest
import torch

from xcnorm.data.synthesis import invert, low_contrast
from xcnorm.errors import UserError

LEVELS = torch.arange(256, dtype=torch.uint8)


def test_invert():
    assert invert(LEVELS).dtype == torch.uint8
    assert invert(LEVELS).tolist() == list(range(255, -1, -1))


@pytest.mark.parametrize(("gain", "offset"), [(0.3, 0.4), (0.5, 0.25), (-1.0, 1.0), (1.0, 0.0)])
def test_low_contrast(gain, offset):
    shown = low_contrast(LEVELS, gain, offset)
    assert shown.dtype == torch.uint8
    for level, value in enumerate(shown.tolist()):
        exact = 255 * (Fraction(str(gain)) * level / 255 + Fraction(str(offset)))
        assert abs(value - exact) <= Fraction(1, 2) + Fraction(1, 10**9)


def test_low_contrast_is_grey_on_grey_unless_told_otherwise():
    assert low_contrast(LEVELS[[0, 255]]).tolist() in ([102, 178], [102, 179])


@pytest.mark.parametrize(("gain", "offset"), [(0.7, 0.4), (-0.5, 0.4), (0.3, -0.1)])
def test_what_would_be_cut_off_is_refused(gain, offset):
    with pytest.raises(UserError, match="must be from 0 to 1"):
        low_contrast(LEVELS, gain, offset)


@pytest.mark.parametrize("shift", [invert, low_contrast])
def test_only_8_bits(shift):
    with pytest.raises(UserError, match=r"must be uint8, not torch\.float32"):
        shift(LEVELS.float())
