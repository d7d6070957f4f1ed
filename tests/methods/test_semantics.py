"""Semantic transformations against second implementations: Pillow, colorsys, and loops over pixels."""

import colorsys
import math

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from xcnorm.methods.semantics import chains, transformations

ALL = transformations(0.25)


def images(count=3, pixels=8):
    return torch.rand(count, 3, pixels, pixels, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def bytes_of(image):
    return Image.fromarray((image * 255).round().byte().permute(1, 2, 0).numpy())


def values_of(picture):
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1).double() / 255


def numbers(name, count=3, seed=2):
    low, high = torch.tensor(list(ALL[name].ranges), dtype=torch.float64).view(-1, 2).unbind(1)
    drawn = torch.rand(count, len(low), dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return low + (high - low) * drawn


def sampled(image, place):
    """Bilinear, black outside, at ``place(x, y)`` for each pixel."""
    height, width = image.shape[1:]
    found = torch.zeros_like(image)
    for row in range(height):
        for column in range(width):
            x, y = place(column, row)
            for dx in (0, 1):
                for dy in (0, 1):
                    i, j = math.floor(y) + dy, math.floor(x) + dx
                    weight = (1 - abs(y - i)) * (1 - abs(x - j))
                    if 0 <= i < height and 0 <= j < width:
                        found[:, row, column] += weight * image[:, i, j]
    return found


def turned(share, size):
    """Where a pixel came from that a turn against the clock has moved; rows count downwards."""
    centre, angle = (size - 1) / 2, 2 * math.pi * share
    cosine, sine = math.cos(angle), math.sin(angle)

    def place(x, y):
        across, up = x - centre, centre - y
        return centre + cosine * across + sine * up, centre - (cosine * up - sine * across)

    return place


PLACES = {
    "rotate": lambda n: turned(n[0], 8),
    "scale": lambda n: lambda x, y: (3.5 + (x - 3.5) / n[0], 3.5 + (y - 3.5) / n[0]),
    "translate": lambda n: lambda x, y: (x - 0.8 * n[0], y - 0.8 * n[1]),
    "shear": lambda n: lambda x, y: tuple(np.linalg.solve([[1, n[0]], [n[1], 1]], [x, y])),
}


@pytest.mark.parametrize("name", PLACES)
def test_geometry_looks_where_each_pixel_came_from(name):
    given, drawn = images(), numbers(name)
    found = ALL[name].apply(given, drawn)
    for image, own, made in zip(given, drawn.tolist(), found, strict=True):
        torch.testing.assert_close(made, sampled(image, PLACES[name](own)), rtol=1e-9, atol=1e-9)


def test_a_quarter_turn_goes_against_the_clock():
    given = images()
    found = ALL["rotate"].apply(given, torch.full((3, 1), 0.25, dtype=torch.float64))
    torch.testing.assert_close(found, torch.rot90(given, 1, (2, 3)), rtol=0, atol=1e-9)


@pytest.mark.parametrize("grey", [False, True])
def test_colours_turn_as_in_colorsys(grey):
    given = images()[:, :1].expand(-1, 3, -1, -1) if grey else images()
    drawn = torch.tensor([[0.7, -0.2, 0.1], [-0.9, 0.3, -0.2], [0.0, 0.0, 0.0]], dtype=torch.float64)
    found = ALL["hsv"].apply(given, drawn)
    for image, own, made in zip(given, drawn.tolist(), found, strict=True):
        for pixel, other in zip(image.flatten(1).T.tolist(), made.flatten(1).T.tolist(), strict=True):
            hue, saturation, value = colorsys.rgb_to_hsv(*pixel)
            expected = colorsys.hsv_to_rgb((hue + own[0] / (2 * math.pi)) % 1, saturation + own[1], value + own[2])
            if saturation + own[1] != 0:  # colorsys is short with what is grey
                assert other == pytest.approx(expected, abs=1e-9)


def test_equalise_is_pillows():
    given = (images(pixels=32) ** 3 * 255).round() / 255
    given[1] = given[1, :, :1, :1]  # one level: nothing to do
    found = ALL["equalise"].apply(given, torch.empty(3, 0))
    for image, made in zip(given, found, strict=True):
        torch.testing.assert_close(made, values_of(ImageOps.equalize(bytes_of(image))), rtol=0, atol=1e-9)


@pytest.mark.parametrize("bits", range(1, 9))
def test_posterise_is_pillows(bits):
    given = (images() * 255).round() / 255
    found = ALL["posterise"].apply(given, torch.full((3, 1), bits + 0.9, dtype=torch.float64))
    for image, made in zip(given, found, strict=True):
        torch.testing.assert_close(made, values_of(ImageOps.posterize(bytes_of(image), bits)), rtol=0, atol=1e-9)
    assert not ALL["posterise"].apply(given, torch.zeros(3, 1)).any()


def test_sharpness_is_pillows_up_to_its_rounding():
    given, drawn = images(), numbers("sharpness")
    found = ALL["sharpness"].apply(given, drawn)
    for image, own, made in zip(given, drawn, found, strict=True):
        expected = ImageEnhance.Sharpness(bytes_of(image)).enhance(own.item())
        torch.testing.assert_close(made, values_of(expected), rtol=0, atol=2 / 255)


def test_light_is_changed_by_the_numbers():
    given = images()
    drawn = {name: numbers(name) for name in ("invert", "contrast", "solarise")}
    found = {name: ALL[name].apply(given, own) for name, own in drawn.items()}
    for place, image in enumerate(given.tolist()):
        for name, rule in (
            ("invert", lambda x, n: n - x),
            ("contrast", lambda x, n: min(1.0, x * n)),
            ("solarise", lambda x, n: min(max(x + n, 0), 1) if min(max(x + n, 0), 1) < 0.5 else 1 - min(x + n, 1)),
        ):
            expected = [rule(x, drawn[name][place].item()) for x in np.array(image).ravel().tolist()]
            assert found[name][place].flatten().tolist() == pytest.approx(expected, abs=1e-12)


def test_eight_squares_are_cut_out_of_each_image():
    given, drawn = images(pixels=12), numbers("cut_out")
    found = ALL["cut_out"].apply(given, drawn)
    for image, own, made in zip(given.clone(), drawn, found, strict=True):
        for hole in range(8):
            y, x = (int(own[3 + 2 * hole + axis] * 9) for axis in (0, 1))
            image[:, y : y + 3, x : x + 3] = own[:3, None, None]
        assert torch.equal(made, image)


LEARNED = ALL.keys() - {"equalise", "posterise"}


@pytest.mark.parametrize("name", sorted(LEARNED))
def test_numbers_have_the_gradient_of_finite_differences(name):
    given = images(2, 6)
    learned = 3 if name == "cut_out" else len(ALL[name].ranges)
    drawn = numbers(name, 2)

    def apply(own):
        return ALL[name].apply(given, torch.cat([own, drawn[:, learned:]], 1))

    assert torch.autograd.gradcheck(apply, drawn[:, :learned].clone().requires_grad_())


@pytest.mark.parametrize("name", ["equalise", "posterise"])
def test_steps_let_the_gradient_of_what_is_before_them_through(name):
    given = images().requires_grad_()
    (slope,) = torch.autograd.grad(ALL[name].apply(given, numbers(name)).sum(), given)
    assert torch.equal(slope, torch.ones_like(slope))
    assert not ALL[name].apply(given.detach(), numbers(name).requires_grad_()).requires_grad


def test_chains_are_those_of_the_published_program():
    found = chains(tuple(ALL), 3)
    assert [len(each) for each in found] == [12, 121, 1100]
    assert all(len(set(chain)) == len(chain) and "hsv" not in chain[1:] for each in found for chain in each)
