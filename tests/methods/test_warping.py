"""Bilinear sampling, and the places of affine maps, against direct computations."""

import math

import pytest
import torch
import torch.nn.functional as F

from xcnorm.methods.warping import affine_places, sampled


def noise(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def bilinear(plane, row, column, beyond):
    """By hand, from the four pixels around a place."""
    height, width = plane.shape
    if beyond == "border":
        row, column = min(max(row, 0), height - 1), min(max(column, 0), width - 1)
    total, top, left = 0.0, math.floor(row), math.floor(column)
    for r in (top, top + 1):
        for c in (left, left + 1):
            if 0 <= r < height and 0 <= c < width:
                total += plane[r, c].item() * (1 - abs(row - r)) * (1 - abs(column - c))
    return total


@pytest.mark.parametrize("beyond", ["zeros", "border"])
@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 5)])
def test_places_between_pixels_are_interpolated(shape, beyond):
    """Also beyond the edge; the same places for all images, or others for each."""
    images = noise(2, 3, 6, 7)
    rows, columns = 2.5 + 3 * noise(*shape, seed=1), 3 + 3 * noise(*shape, seed=2)
    seen = sampled(images, rows, columns, beyond)
    assert seen.shape == (2, 3, 3, 5)
    for image in range(2):
        for channel in range(3):
            for place in range(15):
                own = (image if len(shape) == 3 else ..., place // 5, place % 5)
                row, column = rows[own].item(), columns[own].item()
                expected = bilinear(images[image, channel], row, column, beyond)
                assert seen[image, channel, place // 5, place % 5].item() == pytest.approx(expected, abs=1e-12)


def test_affine_places_are_those_of_torch():
    """Which counts from the centre in halves of the image."""
    maps = noise(4, 2, 3)
    images = noise(4, 3, 6, 8)
    half = torch.tensor([4.0, 3.0], dtype=torch.float64)
    theta = maps * torch.cat([half, torch.ones(1)]) / half[:, None]
    expected = F.grid_sample(images, F.affine_grid(theta, [4, 3, 6, 8], align_corners=False), align_corners=False)
    torch.testing.assert_close(sampled(images, *affine_places(maps, 6, 8)), expected)


def test_the_identity_looks_at_the_pixels_themselves():
    maps = torch.eye(2, 3, dtype=torch.float64).repeat(2, 1, 1)
    images = noise(2, 3, 5, 6)
    torch.testing.assert_close(sampled(images, *affine_places(maps, 5, 6)), images)
