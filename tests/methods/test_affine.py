"""Affine views: what their maps do, and how they are distributed."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from xcnorm.errors import UserError
from xcnorm.methods.affine import Affine

STILL = {**Affine.neutral, "scale": (1.0, 1.0)}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def numbers(count, source):
    (drawn,) = Affine().draw_numbers(torch.Size((count, 3, 1, 1)), source)
    return drawn


def forward(**settings):
    """5,000 maps from old places to new ones, with these settings alone."""
    back = Affine(**{**STILL, **settings}).maps(numbers(5000, generator()), 20, 40)
    there = back[:, :, :2].inverse()
    return there, -(there @ back[:, :, 2:])[..., 0]


def even(values, low, high):
    return stats.kstest((values.numpy() - low) / (high - low), "uniform").pvalue > 1e-3


def test_a_rotation_turns_by_an_even_angle():
    there, shift = forward(rotation=20.0)
    assert even(torch.atan2(there[:, 1, 0], there[:, 0, 0]).rad2deg(), -20, 20)
    torch.testing.assert_close(there @ there.mT, torch.eye(2).double().expand(5000, 2, 2))
    assert not shift.any()


def test_a_scale_is_even_in_its_logarithm():
    there, _ = forward(scale=(0.7, 1.4))
    assert even(there[:, 0, 0].log(), math.log(0.7), math.log(1.4))
    torch.testing.assert_close(there[:, 0, 0], there[:, 1, 1])
    assert not there[:, 0, 1].any()


def test_a_stretch_keeps_the_area():
    there, _ = forward(stretch=1.5)
    torch.testing.assert_close(there.det(), torch.ones(5000).double())
    assert even((there[:, 0, 0] / there[:, 1, 1]).log(), -math.log(1.5), math.log(1.5))


def test_a_shear_moves_rows_against_one_another():
    there, _ = forward(shear=0.3)
    assert even(there[:, 0, 1], -0.3, 0.3)
    there[:, 0, 1] = 0
    assert torch.equal(there, torch.eye(2).double().expand(5000, 2, 2))


def test_a_shift_is_a_share_of_each_axis():
    _, shift = forward(shift=0.1)
    assert even(shift[:, 0], -4, 4)
    assert even(shift[:, 1], -2, 2)


def test_all_together_are_scaled_then_sheared_then_turned_then_shifted():
    drawn = numbers(3, generator(7))
    back = Affine().maps(drawn, 20, 40)
    for image in range(3):
        turn, scale, stretch, shear, right, down = drawn[image].double().numpy()
        angle, size, wider = math.radians(20 * turn), 0.98**0.5 * 2 ** (scale / 2), 1.2 ** (stretch / 2)
        point = np.array([3.0, -2.0])
        new = np.diag([size * wider, size / wider]) @ point
        new = np.array([[1, 0.2 * shear], [0, 1]]) @ new
        new = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]) @ new
        new = new + np.array([4 * right, 2 * down])
        assert (back[image].numpy() @ [*new, 1.0]) == pytest.approx(point, abs=1e-9)


def test_what_a_view_shows_is_where_the_map_puts_it():
    """A bright square moves by a known distance; beyond the edge it is black, or as the border."""
    method = Affine(**{**STILL, "shift": 0.25})
    inputs = -torch.ones(1, 3, 16, 16)
    inputs[:, :, 6:9, 6:9] = 1.0
    (view,), drawn = method.views_of(inputs, generator(2)), numbers(1, generator(2))
    shift = method.maps(drawn, 16, 16)[0, :, 2]
    light = (view[0, 0] + 1) / 2
    pixels = torch.arange(16.0)
    assert light.sum().item() == pytest.approx(9, rel=1e-4)
    assert (light.sum(0) @ pixels / 9).item() == pytest.approx(7 - shift[0].item(), abs=1e-3)
    assert (light.sum(1) @ pixels / 9).item() == pytest.approx(7 - shift[1].item(), abs=1e-3)
    white, smaller = torch.ones(1, 3, 16, 16), {**STILL, "scale": (0.5, 0.5)}
    assert Affine(**smaller).views_of(white, generator())[0][0, 0, 0, 0] == -1
    assert torch.equal(Affine(**smaller, beyond="border").views_of(white, generator())[0], white)


def test_views():
    given = torch.rand(4, 3, 8, 8, generator=generator())
    assert Affine(**STILL).views_of(given, generator()) == [given]
    assert len(Affine().views_of(given, generator())) == 1
    first, second = Affine(consistency=1.0).views_of(given, generator())
    assert not torch.equal(first, second)


@pytest.mark.parametrize(
    ("option", "value", "wanted"),
    [
        ("scale", [1.4, 0.7], "must be two rising numbers above 0"),
        ("scale", [1.0], "must be two rising numbers above 0"),
        ("stretch", 0.9, "must be 1 or more, not 0.9"),
        ("rotation", -1.0, "must be 0 or more, not -1.0"),
        ("beyond", "white", "must be 'black' or 'border', not 'white'"),
    ],
)
def test_settings_out_of_range_are_one_line(option, value, wanted):
    with pytest.raises(UserError, match=f"{option} of method affine {wanted}"):
        Affine.check({option: value})
