"""Pictures of frost: bright and bluish, with structure at every size, as photographs of frost have."""

import itertools

import numpy as np
import pytest
import torch

from xcnorm.data.synthesis import frost_pictures
from xcnorm.errors import UserError


def test_shape_type_and_cache():
    pictures = frost_pictures()
    assert [(tuple(p.shape), p.dtype) for p in pictures] == [((3, 720, 1024), torch.uint8)] * 5
    assert frost_pictures() is pictures
    small = frost_pictures(1, 40, 64)
    assert small[0].shape == (3, 40, 64)


def test_a_picture_does_not_depend_on_how_many_there_are():
    two, three = frost_pictures(2, 96, 128), frost_pictures(3, 96, 128)
    assert all(torch.equal(a, b) for a, b in zip(two, three, strict=False))
    assert not torch.equal(three[1], three[2])
    assert not torch.equal(two[0], frost_pictures(1, 96, 128, seed=1)[0])


def spectrum_slope(grey):
    """Exponent of power over frequency, averaged over directions."""
    window = np.hanning(grey.shape[0])[:, None] * np.hanning(grey.shape[1])
    power = np.abs(np.fft.fft2((grey - grey.mean()) * window)) ** 2
    frequency = np.hypot(np.fft.fftfreq(grey.shape[0])[:, None], np.fft.fftfreq(grey.shape[1]))
    edges = np.linspace(0.03, 0.45, 16)
    rings = [power[(frequency >= a) & (frequency < b)].mean() for a, b in itertools.pairwise(edges)]
    return np.polyfit(np.log((edges[1:] + edges[:-1]) / 2), np.log(rings), 1)[0]


def test_statistics_at_a_fifth_of_the_size():
    # The ranges are those of the photographs of frost in common use, a little widened.
    for picture in frost_pictures():
        small = picture[:, 2::5, 2::5].float().numpy()
        red, _, blue = small.mean((1, 2))
        assert red < blue
        assert 70 < small.mean() < 215
        assert 14 < small.mean(0).std() < 52
        assert -1.7 < spectrum_slope(small.mean(0)) < -0.3


def test_dark_gaps_and_bright_ice():
    for picture in frost_pictures():
        dark, light = picture.float().mean(0).flatten()[::7].quantile(torch.tensor([0.05, 0.95]))
        assert light - dark > 50


def test_too_small():
    with pytest.raises(UserError, match="at least 32 pixels high and wide, not 20x100"):
        frost_pictures(1, 20, 100)
