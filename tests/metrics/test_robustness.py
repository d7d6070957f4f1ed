"""The robustness score is the paper's sum of divergences, finite and never negative; categories are means."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy

from xcnorm.data.corruptions import CATEGORIES
from xcnorm.errors import UserError
from xcnorm.metrics import by_category, divergence, robustness_score


def random_rows(seed, count=6, classes=4, sharpness=1.0):
    generator = torch.Generator().manual_seed(seed)
    return (sharpness * torch.randn(count, classes, generator=generator, dtype=torch.float64)).softmax(1)


@pytest.mark.parametrize("severities", [1, 3, 5])
def test_it_is_the_mean_divergence_over_severities_and_images(severities):
    clean, *corrupted = (random_rows(seed) for seed in range(severities + 1))
    divergences = [
        entropy(clean[image].numpy(), rows[image].numpy()) for rows in corrupted for image in range(len(clean))
    ]
    assert robustness_score(clean, corrupted) == pytest.approx(sum(divergences) / len(divergences), rel=1e-6)


def test_the_clean_prediction_comes_first():
    clean, corrupted = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.8, 0.2]])
    assert robustness_score(clean, [corrupted]) == pytest.approx(0.5 * math.log(0.5 / 0.8) + 0.5 * math.log(0.5 / 0.2))
    assert robustness_score(corrupted, [clean]) == pytest.approx(0.8 * math.log(0.8 / 0.5) + 0.2 * math.log(0.2 / 0.5))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_a_prediction_that_turns_round_completely_scores_the_logarithm_of_the_floor(dtype):
    clean, corrupted = torch.tensor([[1, 0]], dtype=dtype), torch.tensor([[0, 1]], dtype=dtype)
    assert robustness_score(clean, [corrupted]) == pytest.approx(-math.log(1e-8), rel=1e-6)


@given(st.integers(0, 10**6), st.sampled_from([0.1, 1.0, 10.0, 100.0]), st.sampled_from([torch.float16, torch.float64]))
def test_it_is_finite_never_negative_and_zero_for_the_same_predictions(seed, sharpness, dtype):
    clean = random_rows(seed, sharpness=sharpness).to(dtype)
    corrupted = random_rows(seed + 1, sharpness=sharpness).to(dtype)
    assert -1e-12 < robustness_score(clean, [corrupted]) <= -math.log(1e-8) + 1e-6
    assert robustness_score(clean, [clean, clean]) == 0
    nearly = (clean.double() + 1e-9).to(dtype)
    assert robustness_score(clean, [nearly]) > -1e-12


def test_the_order_of_severities_does_not_matter():
    clean, *corrupted = (random_rows(seed) for seed in range(4))
    assert robustness_score(clean, corrupted) == pytest.approx(robustness_score(clean, corrupted[::-1]), rel=1e-14)


ROWS = random_rows(0)


@pytest.mark.parametrize(
    ("clean", "corrupted", "message"),
    [
        (ROWS, [], "one severity or more"),
        (ROWS, [ROWS, ROWS[:5]], r"one shape, not \(6, 4\) and \(5, 4\)"),
        (ROWS[:0], [ROWS], r"the clean predictions must have the shape \(N, C\)"),
        (ROWS, [ROWS, ROWS.log()], "the corrupted predictions number 2 must be probabilities"),
        (ROWS * math.nan, [ROWS], "the clean predictions must be probabilities"),
    ],
)
def test_bad_input_is_named_in_one_line(clean, corrupted, message):
    with pytest.raises(UserError, match=message) as caught:
        robustness_score(clean, corrupted)
    assert "\n" not in str(caught.value)


def test_which_predictions_are_none_is_said():
    with pytest.raises(UserError, match=r"^the clean predictions must be probabilities"):
        divergence(ROWS.log(), ROWS)
    with pytest.raises(UserError, match=r"^the corrupted predictions must be probabilities"):
        divergence(ROWS, ROWS.log())


def test_categories_are_means_over_the_members_that_are_there():
    scores = {"fog": 1.0, "frost": 4.0, "brightness": 0.5, "saturate": 0.25, "contrast": 0.75, "svhn": 9.0}
    assert by_category(scores, CATEGORIES["mrs5"]) == {"weather": 2.5, "chromatic": 0.5}
    assert by_category({}, CATEGORIES["mrs5"]) == {}


def test_every_category_keeps_its_place():
    scores = {name: 1.0 for members in CATEGORIES["mrs5"].values() for name in members}
    assert list(by_category(scores, CATEGORIES["mrs5"])) == ["weather", "blur", "noise", "digital", "chromatic"]
