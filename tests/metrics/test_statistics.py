"""Tests agree with a second computation, intervals cover what they should, and the order of arguments is no matter."""

import dataclasses
import itertools
import math
import statistics
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import permutation_test

from xcnorm.errors import UserError
from xcnorm.metrics import compare, compare_predictions, summarise

accuracies = st.integers(0, 1000).map(lambda thousandths: thousandths / 1000)
samples = st.lists(accuracies, min_size=1, max_size=12)
pairs = st.lists(st.tuples(accuracies, accuracies), min_size=1, max_size=8)


def mean_difference(first, second, axis):
    return np.mean(first - second, axis=axis)


@given(samples)
def test_a_summary_is_mean_spread_and_an_interval_within_the_values(values):
    summary = summarise(values)
    assert summary.count == len(values)
    assert summary.mean == pytest.approx(statistics.fmean(values))
    if len(values) > 1:
        assert summary.std == pytest.approx(statistics.stdev(values), abs=1e-9)
    tiny = 1e-12
    assert min(values) - tiny <= summary.low <= summary.mean + tiny
    assert summary.mean - tiny <= summary.high <= max(values) + tiny


def test_one_seed_has_no_spread_to_speak_of():
    summary = summarise([0.1])
    assert (summary.mean, summary.low, summary.high, summary.count) == (0.1, 0.1, 0.1, 1)
    assert math.isnan(summary.std)


def test_the_interval_of_three_goes_from_the_lowest_to_the_highest():
    summary = summarise([0.75, 0.5, 0.625])
    assert (summary.low, summary.high) == (0.5, 0.75)


def test_the_interval_is_the_bootstraps_percentiles():
    values = [0.71, 0.74, 0.69, 0.80, 0.72]
    # All 5^5 resamples there are, instead of a sample of them.
    means = [statistics.fmean(drawn) for drawn in itertools.product(values, repeat=5)]
    assert dataclasses.astuple(summarise(values))[2:4] == pytest.approx(np.percentile(means, [2.5, 97.5]), abs=3e-3)

    many = np.random.default_rng(1).normal(size=40)
    drawn = many[np.random.default_rng(1).integers(40, size=(10_000, 40))].mean(1)
    assert dataclasses.astuple(summarise(many.tolist()))[2:4] == pytest.approx(
        np.percentile(drawn, [2.5, 97.5]), abs=0.02
    )


def test_the_interval_of_many_covers_the_truth_about_as_often_as_it_says():
    draws = np.random.default_rng(0).normal(size=(150, 30))
    covered = [summary.low <= 0 <= summary.high for summary in map(summarise, draws.tolist())]
    assert 0.88 <= np.mean(covered) <= 0.99


def test_the_same_values_give_the_same_summary_again():
    values = [0.1, 0.5, 0.2, 0.7]
    assert summarise(values) == summarise(values)


@given(pairs.filter(lambda pairs: len(pairs) > 1))  # SciPy refuses one pair
def test_sign_flips_agree_with_scipy(pairs):
    ours, theirs = map(list, zip(*pairs, strict=True))
    # In thousandths, which are whole numbers, SciPy has no rounding to be misled by.
    whole = [np.rint(np.multiply(values, 1000)) for values in (ours, theirs)]
    expected = permutation_test(whole, mean_difference, permutation_type="samples", n_resamples=np.inf, vectorized=True)
    comparison = compare(ours, theirs)
    assert comparison.p_value == pytest.approx(expected.pvalue)
    assert comparison.difference == pytest.approx(expected.statistic / 1000)
    assert comparison.test == "exact sign flip"


@pytest.mark.parametrize(("seeds", "lowest"), [(1, 1), (3, 1 / 4), (5, 1 / 16), (16, 2**-15)])
def test_the_lowest_p_value_is_that_of_one_choice_of_signs_and_its_opposite(seeds, lowest):
    comparison = compare([0.9 + seed / 1000 for seed in range(seeds)], [0.8] * seeds)
    assert comparison.p_value == pytest.approx(lowest)
    assert comparison.low > 0.09


def test_differences_equal_on_paper_are_tied():
    # The differences are +0.1, +0.2, -0.3: every choice of signs is at least as far from zero as their sum, 0. In
    # floating point that sum is not zero, and not the same as that of the opposite signs.
    assert compare([0.4, 0.6, 0.4], [0.3, 0.4, 0.7]).p_value == 1
    # A sum of 0.2 out of 0.1, 0.3, 0.2: of the eight, only the two with sum 0 are closer.
    assert compare([0.2, 0.4, 0.1], [0.1, 0.1, 0.3]).p_value == 6 / 8


@given(pairs)
def test_swapping_ours_and_theirs_turns_the_comparison_round(pairs):
    ours, theirs = zip(*pairs, strict=True)
    one, other = compare(ours, theirs), compare(theirs, ours)
    assert (one.difference, one.low, one.high) == pytest.approx((-other.difference, -other.high, -other.low))
    assert one.p_value == other.p_value
    assert 0 < one.p_value <= 1
    assert one.low - 1e-12 <= one.difference <= one.high + 1e-12
    assert one.low == pytest.approx(summarise([a - b for a, b in pairs]).low)


def test_more_than_sixteen_pairs_are_sampled():
    generator = np.random.default_rng(0)
    ours, theirs = generator.normal(0.4, 1, 17), generator.normal(0, 1, 17)
    comparison = compare(ours.tolist(), theirs.tolist())
    signs = 1 - 2 * (np.arange(2**17)[:, None] >> np.arange(17) & 1)
    exact = (np.abs(signs @ (ours - theirs)) >= abs((ours - theirs).sum()) * (1 - 1e-12)).mean()
    assert 0.01 < exact < 0.99
    assert comparison.p_value == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 10_000))
    assert comparison.test == "sampled sign flip"


def test_a_sampled_p_value_is_never_zero():
    assert compare([1.0] * 40, [0.0] * 40).p_value == 1 / 10_001


def correct(both, only_ours, only_theirs, neither):
    """Which images ours and theirs get right, from how many there are of each kind."""
    ours = [True] * (both + only_ours) + [False] * (only_theirs + neither)
    theirs = [True] * both + [False] * only_ours + [True] * only_theirs + [False] * neither
    return torch.tensor(ours), torch.tensor(theirs)


def two_sided(successes, trials):
    """The exact p value of so many heads of a fair coin, from logarithms of factorials, which do not overflow."""
    every = math.lgamma(trials + 1) - trials * math.log(2)
    below = range(min(successes, trials - successes) + 1)
    return min(1.0, 2 * math.fsum(math.exp(every - math.lgamma(k + 1) - math.lgamma(trials - k + 1)) for k in below))


@given(*(st.integers(0, 60) for _ in range(3)))
def test_mcnemar_is_the_binomial_distribution(both, only_ours, only_theirs):
    ours, theirs = correct(both, only_ours, only_theirs, neither=1)
    comparison = compare_predictions(ours, theirs)
    assert comparison.p_value == pytest.approx(two_sided(only_ours, only_ours + only_theirs), rel=1e-9)
    assert comparison.difference == pytest.approx((ours.double().mean() - theirs.double().mean()).item(), abs=1e-12)
    assert comparison.low <= comparison.difference <= comparison.high
    swapped = compare_predictions(theirs, ours)
    assert (swapped.p_value, swapped.difference) == (comparison.p_value, -comparison.difference)
    assert comparison.test == "exact McNemar"


@pytest.mark.parametrize(("only_ours", "only_theirs"), [(75_000, 75_000), (74_500, 75_500), (20_000, 19_500)])
def test_mcnemar_of_many_images(only_ours, only_theirs):
    comparison = compare_predictions(*correct(5, only_ours, only_theirs, neither=5))
    assert comparison.p_value == pytest.approx(two_sided(only_ours, only_ours + only_theirs), rel=1e-7)


def test_the_interval_over_images_is_that_of_drawing_images():
    ours, theirs = correct(120, 40, 20, 20)
    gaps = ours.double().numpy() - theirs.double().numpy()
    drawn = np.random.default_rng(5).integers(len(gaps), size=(10_000, len(gaps)))
    expected = np.percentile(gaps[drawn].mean(1), [2.5, 97.5])
    comparison = compare_predictions(ours, theirs)
    assert (comparison.low, comparison.high) == pytest.approx(expected, abs=0.006)


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (summarise, ([],), "values has no numbers"),
        (summarise, ([0.5, math.nan],), r"values must be finite numbers, not \[0.5, nan\]"),
        (compare, ([0.5], [0.5, 0.6]), "ours has 1 seeds and theirs 2"),
        (compare, ([], []), "ours has no numbers"),
        (compare, ([0.5], [math.inf]), "theirs must be finite"),
        (compare_predictions, (torch.tensor([True]), torch.tensor([1])), "theirs_correct must be bool"),
        (compare_predictions, (torch.tensor([[True]]), torch.tensor([True])), "ours_correct must be bool"),
        (compare_predictions, (torch.tensor([True]), torch.tensor([True, False])), "1 images and theirs_correct 2"),
        (compare_predictions, (torch.zeros(0).bool(), torch.zeros(0).bool()), "N must not be 0"),
    ],
)
def test_bad_input_is_named_in_one_line(function, arguments, message):
    with pytest.raises(UserError, match=message) as caught:
        function(*arguments)
    assert "\n" not in str(caught.value)


def test_whole_numbers_of_any_type_are_compared_as_numbers():
    ours, theirs = np.array([1, 2], dtype=np.uint8), np.array([3, 2], dtype=np.uint8)
    assert compare(ours, theirs).difference == -1


def test_the_same_seeds_and_images_give_the_same_comparison_again():
    ours, theirs = np.random.default_rng(0).normal(size=(2, 20))
    assert compare(ours, theirs) == compare(ours, theirs)
    images = torch.arange(4001) % 3 == 0, torch.arange(4001) % 4 == 0
    assert compare_predictions(*images) == compare_predictions(*images)


def test_without_scipy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(UserError, match=r"^statistics need a package .*\[report\]"):
        summarise([1.0, 2.0])
