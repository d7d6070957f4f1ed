"""Statistics of a few seeds, or of one pair of runs: intervals and tests. SciPy (the extra ``report``) computes most.

Intervals are percentiles of 10,000 bootstrap resamples, with a fixed seed, so that a report comes out the same twice.
With few seeds they are too narrow: that of three runs only goes from the lowest to the highest. Nor can a test over
three seeds give a p value below 1/4; over five, below 1/16.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xcnorm.errors import UserError
from xcnorm.extras import needed

_RESAMPLES = 10_000
_EXACT_PAIRS = 16  # all their 2^16 choices of signs still fit in a few megabytes


@dataclass(frozen=True)
class Summary:
    """A number over seeds.

    Attributes:
        mean: Its mean.
        std: The sample standard deviation (divided by count - 1); NaN for one seed, which says nothing about spread.
        low: Lower end of the mean's 95 % bootstrap interval; the mean itself for one seed.
        high: Upper end of it.
        count: How many seeds there are.
    """

    mean: float
    std: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Comparison:
    """Ours against theirs.

    Attributes:
        difference: The mean of ours minus theirs.
        low: Lower end of the difference's 95 % bootstrap interval.
        high: Upper end of it.
        p_value: How probable a difference of this size or more, in either direction, is if there is none in truth.
        test: The name of the test the p value comes from.
    """

    difference: float
    low: float
    high: float
    p_value: float
    test: str


def summarise(values: Sequence[float]) -> Summary:
    """Mean, spread and interval of a number over seeds.

    Args:
        values: The number for each seed.

    Raises:
        UserError: There are no values, or one is not finite.
    """
    numbers = _checked(values, "values")
    std = numbers.std(ddof=1).item() if len(numbers) > 1 else math.nan
    return Summary(numbers.mean().item(), std, *_interval(numbers), len(numbers))


def compare(ours: Sequence[float], theirs: Sequence[float]) -> Comparison:
    """Compare two methods over the same seeds.

    If the methods do not differ, each seed's difference is as likely to have the other sign. The p value is the share
    of choices of signs whose mean is at least as far from zero as the one seen: of all choices for up to 16 seeds, and
    for more of 10,000 random ones and the one seen.

    Args:
        ours: A number for each seed.
        theirs: The other method's, for the same seeds in the same order.

    Raises:
        UserError: The two have different lengths or none, or a value is not finite.
    """
    first, second = _checked(ours, "ours"), _checked(theirs, "theirs")
    if len(first) != len(second):
        raise UserError(
            f"ours has {len(first)} seeds and theirs {len(second)}; give the same seeds of both, in one order"
        )
    differences = first - second
    # Sums that would be equal on paper differ in their last bits, by an amount that goes with the numbers subtracted.
    rounding = 1e-12 * (np.abs(first) + np.abs(second)).sum()
    signs, test = _signs(len(differences))
    extreme = np.abs(signs @ differences) >= abs(differences.sum()) - rounding
    return Comparison(differences.mean().item(), *_interval(differences), extreme.mean().item(), test)


def compare_predictions(ours_correct: Tensor, theirs_correct: Tensor) -> Comparison:
    """Compare the accuracy of two runs on the same images.

    McNemar's test looks at the images that only one of the two gets right: if the runs are equally good, each is as
    likely to be ours as theirs, and the p value comes from the binomial distribution itself. It speaks of these two
    runs; whether other seeds would agree is for `compare` to say. The interval is over images.

    Args:
        ours_correct: ``(N,)``, bool: which images ours gets right.
        theirs_correct: ``(N,)``, bool: which the other gets right, in the same order.

    Raises:
        UserError: These are not two bool tensors of one length that is not 0.
    """
    for name, correct in (("ours_correct", ours_correct), ("theirs_correct", theirs_correct)):
        if correct.dtype != torch.bool or correct.ndim != 1 or not len(correct):
            raise UserError(f"{name} must be bool, (N,), not {correct.dtype}, {tuple(correct.shape)}; N must not be 0")
    count = len(ours_correct)
    if len(theirs_correct) != count:
        raise UserError(
            f"ours_correct has {count} images and theirs_correct {len(theirs_correct)}; give the same images"
        )
    only_ours = int((ours_correct & ~theirs_correct).sum())
    only_theirs = int((theirs_correct & ~ours_correct).sum())
    # To draw images with replacement is to draw how many of the three kinds there are, at once.
    fractions = np.array([only_ours, only_theirs, count - only_ours - only_theirs]) / count
    drawn = np.random.default_rng(0).multinomial(count, fractions, size=_RESAMPLES)
    low, high = np.quantile((drawn[:, 0] - drawn[:, 1]) / count, (0.025, 0.975)).tolist()
    one_sided = only_ours + only_theirs
    p_value = _scipy_stats().binomtest(only_ours, one_sided).pvalue if one_sided else 1.0
    return Comparison((only_ours - only_theirs) / count, low, high, float(p_value), "exact McNemar")


def _checked(values: Sequence[float], name: str) -> NDArray[np.float64]:
    numbers = np.asarray(values, dtype=np.float64)
    if not len(numbers):
        raise UserError(f"{name} has no numbers; give one for each seed")
    if not np.isfinite(numbers).all():
        raise UserError(f"{name} must be finite numbers, not {numbers.tolist()}; leave out the runs that failed")
    return numbers


def _interval(numbers: NDArray[np.float64]) -> tuple[float, float]:
    """The 95 % bootstrap interval of the mean."""
    if len(numbers) == 1:
        return numbers[0].item(), numbers[0].item()
    found = _scipy_stats().bootstrap((numbers,), np.mean, n_resamples=_RESAMPLES, method="percentile", rng=0)
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def _scipy_stats() -> Any:
    """Loaded when it is needed: it takes half a second, and is part of an extra."""
    with needed("statistics", "report"):
        import scipy.stats
    return scipy.stats


def _signs(pairs: int) -> tuple[NDArray[np.int64], str]:
    """Rows of signs to flip differences with, the first one flipping none, and the name of the test they make.

    Not SciPy's, which refuses a single pair and sees no tie where sums that are equal on paper differ by a rounding.
    """
    if pairs <= _EXACT_PAIRS:
        bits = np.arange(2**pairs)[:, None] >> np.arange(pairs) & 1
        return 1 - 2 * bits, "exact sign flip"
    bits = np.random.default_rng(0).integers(2, size=(_RESAMPLES + 1, pairs))
    bits[0] = 0
    return 1 - 2 * bits, "sampled sign flip"
