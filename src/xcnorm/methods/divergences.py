"""Divergences: how far two sets of vectors are from one another, for objectives that compare the images of a batch.

All do fixed work on fixed shapes, without asking the device for a value, so that a GPU can replay them: a class that is
absent from a batch has no part in them because no pair is of it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the kernels of the discrepancy, in mean distances
_NARROWEST = 1e-12  # kernel, where all vectors of a class are one


def supervised_contrast(first: Tensor, second: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """How hard it is to tell the vectors of one's own class from the others, by their directions (Khosla et al., 2020).

    The mean over all ``2N`` vectors, and over the others of each one's class, of -log softmax(cosine / temperature).

    Args:
        first: Vectors of one view of the images, ``(N, D)``.
        second: Those of another.
        labels: ``(N,)``.
        temperature: Less looks more closely at the nearest ones.
    """
    directions = F.normalize(torch.cat([first, second]), dim=1)
    same = _same(labels)
    itself = torch.eye(len(same), dtype=torch.bool, device=same.device)
    logs = F.log_softmax((directions @ directions.T / temperature).masked_fill(itself, -torch.inf), 1)
    others = same & ~itself
    return -(logs.masked_fill(~others, 0).sum(1) / others.sum(1)).mean()


def gaussian_surprise(mean: Tensor, log_variance: Tensor, values: Tensor) -> Tensor:
    """The mean of ``(value - mean)^2 / variance + log variance``: twice a negative log-likelihood, but for a constant.

    Args:
        mean: ``(N, D)``.
        log_variance: ``(N, D)``.
        values: ``(N, D)``.
    """
    return ((mean - values).square() * (-log_variance).exp() + log_variance).mean()


def dependence_bound(mean: Tensor, log_variance: Tensor, values: Tensor, order: Tensor) -> Tensor:
    """An upper bound of the mutual information of values and what predicts them (CLUB; Cheng et al., 2020).

    How much likelier values are under their own prediction than in another order under the same ones.

    Args:
        mean: Of the prediction for each image, ``(N, D)``.
        log_variance: ``(N, D)``.
        values: ``(N, D)``.
        order: A permutation, ``(N,)``.
    """
    errors = (mean - values.index_select(0, order)).square() - (mean - values).square()
    return (errors * (-log_variance).exp()).sum(1).mean() / 2


def classwise_discrepancy(first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
    """The squared maximum mean discrepancy of two sets within each class, averaged over the classes that there are.

    The kernel is a sum of five of the form ``exp(-d / w)`` for squared distances ``d``; ``w`` is from a quarter of the
    mean squared distance of different vectors of the class to four times that, and no gradient flows through it.

    Args:
        first: ``(N, D)``.
        second: ``(N, D)``, in the same order.
        labels: ``(N,)``.
    """
    vectors = torch.cat([first, second])
    vectors = vectors - vectors.detach().mean(0)  # shorter vectors lose less when products are taken from squares
    squares = vectors.square().sum(1)
    distances = (squares[:, None] + squares - 2 * vectors @ vectors.T).clamp_min(0)
    same = _same(labels).to(distances)
    members = same.sum(1)  # of each one's class, in both sets
    pairs = (same * (same * distances.detach()).sum(1)).sum(1)
    width = (pairs / (members * (members - 1))).clamp_min(_NARROWEST)[:, None]
    kernel = torch.stack([(-distances / (factor * width)).exp() for factor in _WIDTHS]).sum(0)
    sign = torch.ones_like(squares)
    sign[len(first) :].neg_()
    of_pairs = same * sign[:, None] * sign * kernel
    # A class of n images counts each pair as 1 / n^2; its 2n members make up one class.
    return (of_pairs.sum(1) * 4 / members.square()).sum() / (1 / members).sum()


def _same(labels: Tensor) -> Tensor:
    """Which of twice as many vectors as there are labels are of one class, ``(2N, 2N)``."""
    twice = torch.cat([labels, labels])
    return twice[:, None] == twice
