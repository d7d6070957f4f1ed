"""Spatter, and the steps that water takes."""

import numpy as np
import pytest
import torch

from tests.data.corruptions import reference_spatter as reference
from tests.data.corruptions.checks import SIZES, assert_like_reference, pictures
from xcnorm.data import corruptions
from xcnorm.data.corruptions import _liquid


@pytest.mark.parametrize("constants", SIZES)
@pytest.mark.parametrize("severity", range(1, 6))
def test_like_reference(severity, constants):
    assert_like_reference("spatter", reference.spatter, severity, constants, share=0.0005)


def maps(count, height, width):
    return pictures(count, height, width)[:, 1].int()


def test_edges():
    images = maps(4, 30, 41)
    found = _liquid.edges(images, 50, 150)
    expected = np.stack([reference.canny(image.numpy(), 50, 150) for image in images])
    assert np.array_equal(found.numpy(), expected)
    assert 0.02 < expected.mean() < 0.5


def test_weak_edges_are_followed_from_strong_ones():
    """The step between the halves is high at the top alone."""
    height = (45 - 3 * torch.arange(40)).clamp(min=20)
    images = torch.zeros(1, 40, 24, dtype=torch.int32)
    images[0, :, 12:] = height.unsqueeze(1)
    assert _liquid.edges(images, 50, 150).any(2).all()
    assert not _liquid.edges(images[:, 10:], 50, 150).any()


@pytest.mark.parametrize("share", [0, 0.002, 0.02, 0.2])
def test_distance(share):
    targets = torch.rand(3, 45, 29, generator=torch.Generator().manual_seed(0)) < share
    found = _liquid.distance(targets, 20) / 65536
    expected = np.minimum(np.stack([reference.chamfer(target.numpy()) for target in targets]), 20)
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=3e-4)  # costs are rounded to 2^-16


@pytest.mark.parametrize("levels", [1, 2, 7, 21])
def test_equalise(levels):
    images = torch.randint(0, levels, (5, 9, 14), dtype=torch.int32, generator=torch.Generator().manual_seed(0))
    images[0] = levels - 1
    expected = np.stack([reference.equalise_histogram(image.numpy()) for image in images])
    assert np.array_equal(_liquid.equalise(images, levels).numpy(), expected)


def test_water_brightens_and_mud_browns():
    images = pictures(8, 32, 32)
    water = corruptions.corrupt(images, "spatter", 3).int() - images.int()
    assert water.min() >= 0
    assert water.max() > 50
    brown = torch.tensor([63, 42, 20]).view(3, 1, 1)
    result = corruptions.corrupt(images, "spatter", 5)
    muddy = (result != images).any(1, keepdim=True)
    assert 0.05 < muddy.double().mean() < 0.5
    # Mud hides at least four fifths of what is behind it.
    assert ((result - brown).abs() <= 0.2 * (images - brown).abs() + 1)[muddy.expand_as(images)].all()
