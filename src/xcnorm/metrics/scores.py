"""Scores of predictions: accuracy, area under the ROC curve, calibration."""

from __future__ import annotations

import torch
from torch import Tensor

from xcnorm.errors import UserError
from xcnorm.metrics._probabilities import checked

_BINS = 15


def score(probabilities: Tensor, labels: Tensor) -> dict[str, float | None]:
    """Score the predictions for one domain.

    Args:
        probabilities: ``(N, C)``, each row with sum 1, in any precision; scores are computed in float64.
        labels: ``(N,)``, integers from 0 to C - 1.

    Returns:
        These numbers, by name:

        - ``count``: how many images there are;
        - ``accuracy``: the share of images whose most probable class is right, where of equals the first one counts;
        - ``balanced_accuracy``: the mean recall of the classes that are present;
        - ``auroc``: the area under the ROC curve, where ties count half. With two classes it is that of class 1, with
          more it is the mean, over the classes, of each one against the rest. A class that no image has, or that all
          have, has no curve and is left out; None if nothing is left;
        - ``calibration_error``: the expected calibration error: how far the probability of the most probable class is
          from its accuracy, on average over 15 bins of equal width, open to the left, weighted by their images.

    Raises:
        UserError: The probabilities or the labels are not as described above.

    Example:
        >>> score(torch.tensor([[0.75, 0.25], [0.25, 0.75]]), torch.tensor([0, 1]))
        {'count': 2, 'accuracy': 1.0, 'balanced_accuracy': 1.0, 'auroc': 1.0, 'calibration_error': 0.25}
    """
    probabilities = checked(probabilities, "the probabilities")
    count, classes = probabilities.shape
    labels = _checked_labels(labels, count, classes)
    confidence, predicted = probabilities.max(1)
    correct = predicted == labels
    return {
        "count": count,
        "accuracy": correct.double().mean().item(),
        "balanced_accuracy": _balanced_accuracy(correct, labels),
        "auroc": _auroc(probabilities, labels),
        "calibration_error": calibration_error(confidence, correct),
    }


def _checked_labels(labels: Tensor, count: int, classes: int) -> Tensor:
    if labels.shape != (count,):
        raise UserError(f"{count} rows of probabilities need labels of the shape ({count},), not {tuple(labels.shape)}")
    if labels.is_floating_point() or labels.is_complex():
        raise UserError(f"labels must be integers, not {labels.dtype}; convert them with .long()")
    labels = labels.to("cpu", torch.int64)
    low, high = labels.min().item(), labels.max().item()
    if low < 0 or high >= classes:
        raise UserError(
            f"labels must be from 0 to {classes - 1} for {classes} classes, but they are from {low} to {high}"
        )
    return labels


def _balanced_accuracy(correct: Tensor, labels: Tensor) -> float:
    images = labels.bincount()
    hits = labels[correct].bincount(minlength=len(images))
    present = images > 0
    return (hits[present].double() / images[present]).mean().item()


def _auroc(probabilities: Tensor, labels: Tensor) -> float | None:
    classes = probabilities.shape[1]
    areas = []
    for label in [1] if classes == 2 else range(classes):
        member = labels == label
        if member.any() and not member.all():
            areas.append(_area(probabilities[member, label], probabilities[~member, label]))
    return sum(areas) / len(areas) if areas else None


def _area(members: Tensor, others: Tensor) -> float:
    """How often a member has the higher probability of the two, among all pairs of a member and another; ties half."""
    others = others.sort().values
    below = torch.searchsorted(others, members)
    not_above = torch.searchsorted(others, members, right=True)
    return int((below + not_above).sum()) / (2 * len(members) * len(others))


def calibration_error(confidence: Tensor, correct: Tensor) -> float:
    """The expected calibration error, as in `score`.

    Args:
        confidence: ``(N,)``, float64 on the CPU: the probability of the most probable class of each image.
        correct: ``(N,)``, whether that class is right.

    Example:
        >>> calibration_error(torch.tensor([0.75, 0.75], dtype=torch.float64), torch.tensor([True, False]))
        0.25
    """
    edges = torch.linspace(0, 1, _BINS + 1, dtype=torch.float64)
    bins = torch.bucketize(confidence, edges[1:-1])
    # A bin's images times the gap between its means is the sum of its images' own gaps.
    gaps = bins.bincount(correct.double() - confidence)
    return (gaps.abs().sum() / len(confidence)).item()
