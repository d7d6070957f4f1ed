"""Blurs, snow, elastic transform and pixelate."""

import math

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage

from tests.data.corruptions import reference_filters as reference
from tests.data.corruptions.checks import SIZES, assert_like_reference, pictures
from xcnorm.data import corruptions
from xcnorm.data.corruptions import Shape, _filters

NAMES = [
    "gaussian_blur",
    "defocus_blur",
    "glass_blur",
    "motion_blur",
    "zoom_blur",
    "snow",
    "elastic_transform",
    "pixelate",
]


@pytest.mark.parametrize("constants", SIZES)
@pytest.mark.parametrize("severity", range(1, 6))
@pytest.mark.parametrize("name", NAMES)
def test_like_reference(name, severity, constants):
    assert_like_reference(name, getattr(reference, name), severity, constants, share=0.0005)


def between(*shape):
    return torch.rand(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("mode", ["nearest", "reflect"])
@pytest.mark.parametrize("sigma", [0, 0.05, 0.3, 1, 6, 40])
def test_gaussian(sigma, mode):
    """The longest kernel reaches over the image many times."""
    images = between(2, 3, 13, 20)
    for truncate in (3, 4):
        expected = ndimage.gaussian_filter(images.numpy(), (0, 0, sigma, sigma), mode=mode, truncate=truncate)
        actual = _filters.gaussian(images, sigma, truncate=truncate, mode=mode)
        np.testing.assert_allclose(actual.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("factor", [1, 1.04, 1.25, 1.75, 2, 3, 4.5])
@pytest.mark.parametrize("size", [(4, 5), (13, 20), (32, 32), (64, 47)], ids=str)
def test_clipped_zoom(size, factor):
    images = between(1, 1, *size)
    expected = reference.clipped_zoom(images[0].permute(1, 2, 0).numpy(), factor)
    actual = _filters.clipped_zoom(images, factor)[0].permute(1, 2, 0).numpy()
    np.testing.assert_allclose(actual, expected, atol=1e-12)


@pytest.mark.parametrize(("size", "factor"), [(36, 1.2000000000000002), (26, 1.75)])
def test_zoom_reaches_the_last_pixel(size, factor):
    """Where SciPy's rounding errors put it beyond the border, which would be black."""
    assert _filters.clipped_zoom(torch.ones(1, 1, size, size), factor).min() == 1


@pytest.mark.parametrize(
    ("border", "mode"), [("nearest", "nearest"), ("reflect", "reflect"), ("reflect_101", "mirror")]
)
def test_bilinear(border, mode):
    images = between(1, 3, 6, 9)
    y, x = 80 * between(2, 1, 6, 9) - 40  # several times the image to each side
    expected = reference.sample(images[0].permute(1, 2, 0).numpy(), y[0].numpy(), x[0].numpy(), mode)
    actual = _filters.bilinear(images, y, x, border)[0].permute(1, 2, 0).numpy()
    np.testing.assert_allclose(actual, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("angle", "step", "along"),
    [
        (0, (0, -1), (0, 1, 2, 3, 4)),
        (-90, (1, 0), (0, 1, 2, 3, 4)),
        # Along a diagonal five points are four pixels, of which one is met twice.
        (45, (-1, -1), (0, 1, 1, 2, 3)),
        (-45, (1, -1), (0, 1, 1, 2, 3)),
    ],
)
def test_motion_smears_a_point_backwards(angle, step, along):
    image = torch.zeros(1, 1, 15, 15)
    image[0, 0, 7, 7] = 1
    smeared = (_filters.motion(image, 2, 1.5, torch.tensor([angle])) * 255).round()[0, 0]
    weights = [math.exp(-((i / 1.5) ** 2) / 2) for i in range(5)]
    expected = torch.zeros(15, 15)
    for weight, distance in zip(weights, along, strict=True):
        expected[7 + step[0] * distance, 7 + step[1] * distance] += weight / sum(weights)
    assert torch.equal(smeared, (expected * 255 + 0.5).floor())


FLAT = [(n, c, s) for n in NAMES if n != "snow" for c in SIZES for s in range(1, 6)]
# A disk as wide as the array that holds it gets heavier when its edge is softened; so it was published.
HEAVY = [("defocus_blur", "imagenet", 4), ("defocus_blur", "imagenet", 5)]


@pytest.mark.parametrize(("name", "constants", "severity"), [case for case in FLAT if case not in HEAVY])
def test_flat_images_stay_as_they_are(name, constants, severity):
    """Every grey level survives: sums of weights that are 1 but for rounding errors must not be cut off."""
    images = torch.arange(256, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 3, 9, 12).contiguous()
    assert torch.equal(corruptions.corrupt(images, name, severity, constants=constants), images)


def roughness(images):
    images = images.double()
    return (images.diff(dim=2).square().mean() + images.diff(dim=3).square().mean()).item()


@pytest.mark.parametrize(
    ("name", "constants"),
    [
        ("gaussian_blur", "cifar"),
        ("gaussian_blur", "imagenet"),
        ("defocus_blur", "imagenet"),
        ("motion_blur", "imagenet"),
        ("zoom_blur", "cifar"),
    ],
)
def test_smoother_with_severity(name, constants):
    images = pictures(16, 48, 48)
    rough = [roughness(corruptions.corrupt(images, name, s, constants=constants)) for s in range(1, 6)]
    assert rough == sorted(rough, reverse=True)
    assert rough[0] < roughness(images)


@pytest.mark.parametrize("constants", SIZES)
def test_coarser_with_severity(constants):
    images = pictures(16, 48, 48)
    errors = [
        (corruptions.corrupt(images, "pixelate", s, constants=constants).int() - images).abs().double().mean().item()
        for s in range(1, 6)
    ]
    assert errors == sorted(errors)


@pytest.mark.parametrize("size", [4, 15, 32, 57])
def test_pixelate_square_images_as_pillow_does(size):
    images = pictures(2, size, size)
    for constants in SIZES:
        for severity in range(1, 6):
            few = int(size * reference.PIXELATE[constants][severity - 1])
            expected = [
                Image.fromarray(image.permute(1, 2, 0).numpy())
                .resize((few, few), Image.Resampling.BOX)
                .resize((size, size), Image.Resampling.BOX)
                for image in images
            ]
            actual = corruptions.corrupt(images, "pixelate", severity, constants=constants)
            assert np.array_equal(actual.permute(0, 2, 3, 1), np.stack([np.array(e) for e in expected]))


def test_snow_brightens():
    images = pictures(16, 48, 48)
    for constants in SIZES:
        for severity in range(1, 6):
            snowed = corruptions.corrupt(images, "snow", severity, constants=constants)
            assert (snowed >= images).all()
            assert snowed.float().mean() > images.float().mean() + 5


def test_glass_blur_keeps_the_margin():
    """What lies less than a step from the border is a neighbour, but never replaced."""
    fields = corruptions.draw("glass_blur", 5, Shape(3, 12, 16), torch.arange(4), constants="imagenet")
    assert fields["steps"].shape == (4, 2, 2, 4, 8)
    assert (fields["steps"].min(), fields["steps"].max()) == (-4, 3)
    images = pictures(4, 32, 32)
    changed = corruptions.corrupt(images, "glass_blur", 1) != images  # too little smoothing to matter
    assert changed[:, :, 2:, 2:].any()
    assert not changed[:, :, :2].any()
    assert not changed[..., :2].any()


def test_elastic_transform_that_collapses():
    """Three points that are moved onto one leave nothing to be undone; the result is still a picture."""
    images = pictures(1, 12, 12)
    fields = corruptions.draw("elastic_transform", 1, Shape(3, 12, 12), torch.arange(1))
    fields["corners"] = torch.tensor([[[-4.0, -4.0], [-4.0, 4.0], [4.0, 4.0]]])
    result = corruptions.apply(images, "elastic_transform", 1, fields)
    assert torch.equal(result, images[:, :, :1, :1].expand_as(images))
    fields["corners"][0, 0, 0] += 1e-6  # hardly better
    assert corruptions.apply(images, "elastic_transform", 1, fields).shape == images.shape
