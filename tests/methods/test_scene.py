"""Scenes: what stands beside a digit, and how it is written."""

import pytest
import torch
from scipy import stats

from xcnorm.errors import UserError
from xcnorm.methods.affine import Affine
from xcnorm.methods.scene import Scene, moved

STILL = {**Scene.neutral, "scale": (1.0, 1.0)}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def digits(count=6, pixels=32):
    """Bright bars, each of another brightness, as inputs from -1 to 1."""
    pictures = torch.zeros(count, 3, pixels, pixels)
    pictures[:, :, 8:24, 15:17] = torch.linspace(0.5, 1, count)[:, None, None, None]
    return 2 * pictures - 1


def test_neighbours_are_other_digits_of_the_batch_at_both_sides():
    method = Scene(**{**STILL, "neighbours": 1.0, "apart": (0.25, 0.25)})
    inputs = digits()
    ((view,), (_, _, on)) = method.views_of(inputs, generator(3)), method.draw_numbers(inputs.shape, generator(3))
    row = ((view + 1) / 2)[:, 0].amax(1)  # the brightest of each column
    own = ((inputs + 1) / 2).amax((1, 2, 3))
    torch.testing.assert_close(row[:, 15:17], own[:, None].expand(-1, 2))
    for side, columns in enumerate((slice(7, 9), slice(23, 25))):
        expected = own[(torch.arange(6) + on[0, side]) % 6]
        torch.testing.assert_close(row[:, columns], expected[:, None].expand(-1, 2), rtol=0, atol=1e-5)
    assert not (row[:, 10:14] > 1e-5).any()


def test_neighbours_are_as_likely_as_is_asked_and_as_far():
    method, count = Scene(**{**STILL, "neighbours": 0.7, "apart": (0.3, 0.4)}), 4000
    (view,) = method.views_of(digits(count), generator())
    columns = ((view + 1) / 2)[:, 0].sum(1)[:, :12]
    left = columns.sum(1) > 0.5
    assert left.double().mean().item() == pytest.approx(0.7, abs=0.03)
    place = (columns @ torch.arange(12.0))[left] / columns.sum(1)[left]
    share = ((15.5 - place) / 32 - 0.3) / 0.1
    assert stats.kstest(share.numpy(), "uniform").pvalue > 1e-3


def test_strokes_grow_or_shrink_by_a_share_of_a_pixel_at_each_edge():
    picture = torch.zeros(3, 1, 8, 8)
    picture[:, :, :, 3:5] = 1.0
    row = Scene(stroke=0.5, hollow=0.0).written(picture, torch.tensor([1.0, 0.5, 0.0]), torch.ones(3))[:, 0, 4]
    assert row.tolist() == [
        [0, 0, 0.5, 1, 1, 0.5, 0, 0],
        [0, 0, 0, 1, 1, 0, 0, 0],
        [0, 0, 0, 0.5, 0.5, 0, 0, 0],
    ]


def test_hollow_digits_are_outlines():
    picture = torch.zeros(2, 1, 8, 8)
    picture[:, :, :, 3:5] = 1.0
    row = Scene(hollow=0.2).written(picture, torch.full((2,), 0.5), torch.tensor([0.1, 0.3]))[:, 0, 4]
    assert row.tolist() == [[0, 0, 1, 0, 0, 1, 0, 0], [0, 0, 0, 1, 1, 0, 0, 0]]


def test_without_its_own_settings_it_is_an_affine_view():
    settings = {"neighbours": 0.0, "stroke": 0.0, "hollow": 0.0}
    (scene,), (affine,) = (m.views_of(digits(), generator(1)) for m in (Scene(**settings), Affine()))
    torch.testing.assert_close(scene, affine)


def test_moved_images():
    image = torch.zeros(1, 1, 4, 4)
    image[0, 0, 1, 1] = 1.0
    there = moved(image, torch.tensor([2.0]), torch.tensor([-1.0]))
    assert there[0, 0].nonzero().tolist() == [[0, 3]]


@pytest.mark.parametrize(
    ("option", "value", "wanted"),
    [
        ("neighbours", 1.5, "must be between 0 and 1, not 1.5"),
        ("apart", [0.7, 0.5], "must be two rising numbers above 0"),
        ("stretch", 0.9, "must be 1 or more, not 0.9"),
    ],
)
def test_settings_out_of_range_are_one_line(option, value, wanted):
    with pytest.raises(UserError, match=f"{option} of method scene {wanted}"):
        Scene.check({option: value})
