"""The Model Robustness Score of the paper: how much corruption moves a network's predictions."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from torch import Tensor

from xcnorm.errors import UserError
from xcnorm.metrics._probabilities import checked

_FLOOR = 1e-8  # just below the smallest number of half precision, in which predictions are stored


def robustness_score(clean: Tensor, corrupted: Sequence[Tensor]) -> float:
    """The Model Robustness Score of one corruption; 0 where it changes no prediction, and lower is better.

    For one image it is ``MRS(x, xi) = (1/5) sum_s KL(f(xi(x; 0)) ; f(xi(x; s)))`` over the severities ``s = 1 .. 5``:
    the mean divergence of the prediction for the corrupted image from that for the clean one, in nats. The score is the
    mean over images. A probability below 1e-8 counts as 1e-8, which keeps the divergence finite, and rows are then
    scaled to sum 1, which keeps it from being negative.

    Args:
        clean: ``(N, C)``, the probabilities for the clean images.
        corrupted: For each severity ``(N, C)``, the probabilities for the same images in the same order, corrupted.

    Raises:
        UserError: These are not probabilities, their shapes differ, or there is no severity.

    Example:
        >>> import torch
        >>> clean = torch.tensor([[0.5, 0.5]])
        >>> round(robustness_score(clean, [clean, torch.tensor([[0.8, 0.2]])]), 4)
        0.1116
    """
    if not corrupted:
        raise UserError("a robustness score needs predictions for one severity or more, but there are none")
    expected = _floored(clean, "the clean predictions")
    return fmean(
        _between(expected, _floored(predictions, f"the corrupted predictions number {number}")).mean().item()
        for number, predictions in enumerate(corrupted, start=1)
    )


def divergence(clean: Tensor, corrupted: Tensor) -> Tensor:
    """How far each prediction for a corrupted image is from that for the clean one: the terms of `robustness_score`.

    Args:
        clean: ``(N, C)``, the probabilities for the clean images.
        corrupted: ``(N, C)``, those for the same images, corrupted.

    Returns:
        ``(N,)``, float64, in nats.

    Raises:
        UserError: These are not probabilities, or their shapes differ.
    """
    return _between(_floored(clean, "the clean predictions"), _floored(corrupted, "the corrupted predictions"))


def _floored(probabilities: Tensor, name: str) -> Tensor:
    rows = checked(probabilities, name).clamp_min(_FLOOR)
    return rows / rows.sum(1, keepdim=True)


def _between(clean: Tensor, corrupted: Tensor) -> Tensor:
    if corrupted.shape != clean.shape:
        raise UserError(
            f"predictions for clean and corrupted images must have one shape, not {tuple(clean.shape)} and "
            f"{tuple(corrupted.shape)}; give those for the same images"
        )
    return (clean * (clean.log() - corrupted.log())).sum(1)
