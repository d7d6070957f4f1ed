"""TrivialAugment: which operations, how much of each, and on which image."""

import numpy as np
import pytest
import torch
from scipy import stats

from xcnorm.errors import UserError
from xcnorm.methods import operations
from xcnorm.methods.trivial import TrivialAugment

NAMES = ["identity", "autocontrast", "equalize", "posterize", "solarize", "brightness", "contrast", "saturation"]
NAMES += ["sharpness", "rotate", "shear_x", "shear_y", "translate_x", "translate_y"]
FACTORS = np.linspace(0.01, 2, 31)


def either_way(most):
    return {side * most * level / 30 for level in range(31) for side in (-1, 1)}


PUBLISHED = {  # every amount of the space "wide"
    "posterize": {8 - int(6 * level / 30) for level in range(31)},
    "solarize": {256 - int(256 * level / 30) for level in range(31)},
    "brightness": set(FACTORS),
    "contrast": set(FACTORS),
    "saturation": set(FACTORS),
    "sharpness": set(FACTORS),
    "rotate": either_way(135),
    "shear_x": either_way(0.99),
    "shear_y": either_way(0.99),
    "translate_x": either_way(32),
    "translate_y": either_way(32),
}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def choose(method, count, source):
    (numbers,) = method.draw_numbers(torch.Size((count, 3, 1, 1)), source)
    return method.choose(numbers)


def by_name(chosen, amounts):
    amounts = amounts.double()
    return {name: amounts[chosen == number].numpy() for number, name in enumerate(NAMES)}


def test_every_operation_and_every_published_amount_is_equally_likely():
    found = by_name(*choose(TrivialAugment(), 60_000, generator()))
    assert stats.chisquare([len(amounts) for amounts in found.values()]).pvalue > 1e-3
    for name, amounts in PUBLISHED.items():
        assert np.unique(found[name].round(4)) == pytest.approx(sorted({round(amount, 4) for amount in amounts}))
    levels = np.array([8 - int(6 * level / 30) for level in range(31)])
    expected = np.bincount(levels) * len(found["posterize"]) / 31
    assert stats.chisquare(np.bincount(found["posterize"].astype(int))[2:], expected[2:]).pvalue > 1e-3
    factors = np.abs(found["brightness"][:, None] - FACTORS).argmin(1)
    assert stats.chisquare(np.bincount(factors, minlength=31)).pvalue > 1e-3


@pytest.mark.parametrize("strength", [0.25, 0.5])
def test_the_strength_is_a_share_of_what_changes(strength):
    full, some = (by_name(*choose(TrivialAugment(strength=each), 3000, generator())) for each in (1.0, strength))
    for name in ("rotate", "shear_x", "translate_y"):
        assert some[name] == pytest.approx(full[name] * strength, abs=1e-5)
    assert some["contrast"] - 1 == pytest.approx((full["contrast"] - 1) * strength, abs=1e-5)
    assert some["posterize"].min() == np.ceil(8 - 6 * strength)
    assert set(some["posterize"] % 1) == {0}


def test_each_image_goes_through_what_was_drawn_for_it():
    method = TrivialAugment()
    inputs = 2 * torch.rand(80, 3, 12, 12, generator=generator(5)) - 1
    view = (method.views_of(inputs, generator(1))[0] + 1) / 2
    chosen, amounts = choose(method, 80, generator(1))
    for number, name in enumerate(NAMES):
        own = chosen == number
        assert own.any()
        pictures = (inputs[own] + 1) / 2
        expected = pictures if name == "identity" else getattr(operations, name)(pictures, amounts[own])
        torch.testing.assert_close(view[own], expected)


def test_views():
    given = torch.rand(8, 3, 8, 8, generator=generator())
    assert TrivialAugment(strength=0.0).views_of(given, generator()) == [given]
    assert len(TrivialAugment().views_of(given, generator())) == 1
    first, second = TrivialAugment(consistency=1.0).views_of(given, generator())
    assert not torch.equal(first, second)


@pytest.mark.parametrize(("option", "value"), [("strength", 1.5), ("consistency", -1.0)])
def test_settings_out_of_range_are_one_line(option, value):
    with pytest.raises(UserError, match=f"{option} of method trivial must be .*, not {value}"):
        TrivialAugment.check({option: value})
