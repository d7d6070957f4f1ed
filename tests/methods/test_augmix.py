"""AugMix against its formulas."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.spatial.distance import jensenshannon

from xcnorm.errors import UserError
from xcnorm.methods import operations
from xcnorm.methods.augmentation import disagreement
from xcnorm.methods.augmix import AugMix


def images(count=6, pixels=12):
    return 2 * torch.rand(count, 3, pixels, pixels, generator=torch.Generator().manual_seed(5)) - 1


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def turn(count, source):
    """Numbers for an operation on each of so many pictures."""
    return AugMix().draw_turn(torch.Size((count, 3, 1, 1)), 1, source)


def chosen_amounts(count, pixels, source):
    chosen, rest = (each.flatten(0, 1) for each in turn(count, source))
    return chosen, AugMix().amounts(pixels, pixels, chosen, rest)


class Darkening(AugMix):
    """Every operation halves a picture, so that one can see how many there were."""

    def operate(self, copies, active, *numbers):
        return copies * 0.5 ** active[:, None, None, None]


@pytest.mark.parametrize("alpha", [0.5, 1.0, 3.0])
def test_weights_are_dirichlet_and_beta(alpha):
    """Each share of three by itself is Beta(alpha, 2 alpha); together they are 1."""
    method = AugMix(alpha=alpha)
    shares, weight = method.weights(method.draw_numbers(torch.Size((5000, 3, 1, 1)), generator())[-1])
    torch.testing.assert_close(shares.sum(2), torch.ones(5000, 2).double())
    for chain in range(3):
        share = shares[..., chain].flatten().numpy()
        assert stats.kstest(share, stats.beta(alpha, 2 * alpha).cdf).pvalue > 1e-3
        assert share.mean() == pytest.approx(1 / 3, abs=0.015)
        assert share.var() == pytest.approx(2 / (9 * (3 * alpha + 1)), rel=0.06)
    assert np.corrcoef(shares[:, 0, 0], shares[:, 0, 1])[0, 1] == pytest.approx(-0.5, abs=0.06)
    assert stats.kstest(weight.flatten().numpy(), stats.beta(alpha, alpha).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(weight[:, 0], weight[:, 1])[0, 1]) < 0.06


def test_a_mixture_is_a_mean_of_the_picture_and_its_chains():
    method, given, seen = Darkening(), images().double(), []
    for seed in range(30):
        _, *found = method.views_of(given, generator(seed))
        depths, *_, gammas = method.draw_numbers(given.shape, generator(seed))
        seen += depths.flatten().tolist()
        shares, weight = method.weights(gammas)
        depths = depths.view(6, 2, 3)
        factor = 1 - weight + weight * (shares * 0.5**depths).sum(2)
        for number, mixture in enumerate(found):
            torch.testing.assert_close((mixture + 1) / 2, (given + 1) / 2 * factor[:, number, None, None, None])
    assert stats.chisquare(np.bincount(seen)[1:]).pvalue > 1e-3


def test_a_fixed_depth_is_the_number_of_operations():
    method, given = Darkening(depth=5, chains=2, consistency=0.0), images().double()
    (found,) = method.views_of(given, generator())
    _, weight = method.weights(method.draw_numbers(given.shape, generator())[-1])
    factor = 1 - weight[:, 0] * (1 - 0.5**5)
    torch.testing.assert_close((found + 1) / 2, (given + 1) / 2 * factor[:, None, None, None])


def test_operations_are_equally_likely_at_the_levels_of_the_published_program():
    names = [
        "autocontrast",
        "equalize",
        "posterize",
        "solarize",
        "rotate",
        "shear_x",
        "shear_y",
        "translate_x",
        "translate_y",
    ]
    chosen, amounts = chosen_amounts(20_000, 32, generator())
    found = {name: amounts[chosen == number].numpy() for number, name in enumerate(names)}
    assert stats.chisquare([len(amounts) for amounts in found.values()]).pvalue > 1e-3
    level = stats.uniform(0.1, 2.9)  # what the program draws at severity 3
    for name in ("shear_x", "shear_y"):
        amounts = np.array(found[name])
        assert stats.kstest(np.abs(amounts) * 10 / 0.3, level.cdf).pvalue > 1e-3
        assert abs((amounts > 0).mean() - 0.5) < 5 / math.sqrt(4 * len(amounts))
    for name, scale in (("rotate", 30), ("translate_x", 32 / 3), ("translate_y", 32 / 3)):
        assert set(np.abs(found[name])) == set(range(int(3 * scale / 10) + (name != "rotate")))
    assert set(found["posterize"]) == {3, 4}
    assert np.mean(np.array(found["posterize"]) == 3) == pytest.approx(level.sf(2.5), abs=0.05)
    assert min(found["solarize"]) == 256 - 76
    assert max(found["solarize"]) == 256 - 2


def test_an_operation_is_the_one_that_was_drawn():
    copies = torch.rand(60, 3, 8, 8, generator=generator())
    found = AugMix().operate(copies, torch.ones(60, dtype=torch.bool), *turn(60, generator(4)))
    chosen, amounts = chosen_amounts(60, 8, generator(4))
    for number, name in ((1, "equalize"), (4, "rotate"), (7, "translate_x")):
        own = chosen == number
        assert own.any()
        torch.testing.assert_close(found[own], getattr(operations, name)(copies[own], amounts[own]))


def test_inactive_copies_stay_as_they_are():
    copies, active = torch.rand(6, 3, 8, 8, generator=generator()), torch.arange(6) % 2 == 0
    found = AugMix().operate(copies, active, *turn(6, generator(4)))
    assert torch.equal(found[1::2], copies[1::2])
    assert not torch.equal(found[::2], copies[::2])


def test_the_consistency_is_the_jensen_shannon_divergence():
    """Which scipy has for two, as its root."""
    answers = [torch.randn(5, 4, dtype=torch.float64, generator=generator(seed)) for seed in (1, 2)]
    first, second = (answer.softmax(1).numpy() for answer in answers)
    expected = np.mean(jensenshannon(first, second, axis=1) ** 2)
    assert disagreement(answers).item() == pytest.approx(expected, rel=1e-9)
    third = torch.randn(5, 4, dtype=torch.float64, generator=generator(3)).softmax(1).numpy()
    mean = (first + second + third) / 3
    three = np.mean([stats.entropy(one, mean, axis=1) for one in (first, second, third)])
    assert disagreement([*answers, torch.tensor(third).log()]).item() == pytest.approx(three, rel=1e-9)


def test_views():
    given = images()
    first, second, third = AugMix().views_of(given, generator())
    assert first is given
    assert second.shape == third.shape == given.shape
    assert not torch.equal(second, third)
    assert len(AugMix(consistency=0.0).views_of(given, generator())) == 1
    assert AugMix(chains=0).views_of(given, generator()) == [given]
    assert AugMix.cost == 3


@pytest.mark.parametrize(
    ("option", "value", "wanted"),
    [
        ("chains", -1, "must be 0 or more, not -1"),
        ("depth", 0, "must be -1, or 1 or more, not 0"),
        ("alpha", 0.0, "must be more than 0, not 0.0"),
        ("severity", 11.0, "must be from 0.1 to 10, not 11.0"),
        ("consistency", -1.0, "must be 0 or more, not -1.0"),
    ],
)
def test_settings_out_of_range_are_one_line(option, value, wanted):
    with pytest.raises(UserError, match=f"{option} of method augmix {wanted}"):
        AugMix.check({option: value})
