"""Contrastive losses over the images of a batch, of one view or several: what AdvST and PDEN add to a cross-entropy.

Vectors are compared by their directions. All do fixed work on fixed shapes, so that a GPU can replay them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def class_contrast(vectors: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """How hard it is to tell the others of one's own class from the rest of a batch (Khosla et al., 2020), in one view.

    The mean over images of the mean of -log softmax(cosine / temperature) over the others of its class; an image whose
    class has no other counts as 0.

    Args:
        vectors: ``(N, D)``.
        labels: ``(N,)``.
        temperature: Less looks more closely at the nearest ones.
    """
    friends = (labels[:, None] == labels) & ~_itself(labels)
    logs = F.log_softmax(_similarities(vectors, temperature), 1).masked_fill(~friends, 0)
    return -(logs.sum(1) / friends.sum(1).clamp_min(1)).mean()


def image_contrast(views: Sequence[Tensor], temperature: float) -> Tensor:
    """InfoNCE: how hard it is to tell the other views of one's own image from all views of a batch.

    The mean over all views, and over the other views of each one's image, of -log softmax(cosine / temperature).

    Args:
        views: Two or more, each ``(N, D)``, in the same order.
        temperature: Less looks more closely at the nearest ones.
    """
    friends = _friends(views)
    logs = F.log_softmax(_similarities(torch.cat(list(views)), temperature), 1)
    return -logs.masked_fill(~friends, 0).sum(1).mean() / (len(views) - 1)


def image_confusion(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """The opposite of `image_contrast` for two views: the mean of ``-log(1 - softmax)`` of the other view.

    It falls as the two views of an image become harder to match, and unlike the negative of InfoNCE it has a bound.

    Args:
        first: ``(N, D)``; at least two images.
        second: ``(N, D)``, in the same order.
        temperature: Less looks more closely at the nearest ones.
    """
    similarities = _similarities(torch.cat([first, second]), temperature)
    others = similarities.masked_fill(_friends([first, second]), -torch.inf)
    return (similarities.logsumexp(1) - others.logsumexp(1)).mean()


def _similarities(vectors: Tensor, temperature: float) -> Tensor:
    """Cosines over the temperature, without that of a vector with itself."""
    directions = F.normalize(vectors, dim=1)
    return (directions @ directions.T / temperature).masked_fill(_itself(vectors), -torch.inf)


def _friends(views: Sequence[Tensor]) -> Tensor:
    """Which of all views are others of one image."""
    image = torch.arange(len(views[0]), device=views[0].device).repeat(len(views))
    return (image[:, None] == image) & ~_itself(image)


def _itself(vectors: Tensor) -> Tensor:
    return torch.eye(len(vectors), dtype=torch.bool, device=vectors.device)
