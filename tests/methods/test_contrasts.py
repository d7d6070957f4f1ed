"""Contrastive losses against sums over images written out."""

import math

import pytest
import torch

from tests.methods.test_divergences import LABELS, contrast_by_hand, cosine, vectors
from xcnorm.methods.contrasts import class_contrast, image_confusion, image_contrast


def shares(views, temperature):
    """Of each vector in every other's softmax."""
    weights = [[math.exp(cosine(a, b) / temperature) for b in views] for a in views]
    for i, row in enumerate(weights):
        row[i] = 0.0
    return [[weight / sum(row) for weight in row] for row in weights]


@pytest.mark.parametrize("temperature", [0.07, 1.0])
def test_classes_are_contrasted_in_one_view(temperature):
    given, kinds = vectors(0), LABELS.tolist()
    share, total = shares(list(given), temperature), 0.0
    for i, kind in enumerate(kinds):
        friends = [j for j in range(len(kinds)) if j != i and kinds[j] == kind]
        total -= sum(math.log(share[i][j]) for j in friends) / max(1, len(friends))
    assert kinds.count(2) == 1  # one is alone
    found = class_contrast(given, LABELS, temperature).item()
    assert found == pytest.approx(total / len(kinds), rel=1e-12)


@pytest.mark.parametrize("count", [2, 4])
def test_images_are_contrasted_over_all_views(count):
    views = [vectors(seed) for seed in range(count)]
    size, share, total = len(views[0]), shares([row for view in views for row in view], 0.5), 0.0
    for i in range(count * size):
        friends = [j for j in range(count * size) if j != i and j % size == i % size]
        total -= sum(math.log(share[i][j]) for j in friends) / (count - 1)
    assert image_contrast(views, 0.5).item() == pytest.approx(total / (count * size), rel=1e-12)


def test_two_views_of_unlabelled_images_are_contrasted_as_if_each_were_a_class():
    first, second = vectors(0), vectors(1)
    expected = contrast_by_hand(first, second, torch.arange(len(first)), 0.2)
    assert image_contrast([first, second], 0.2).item() == pytest.approx(expected, rel=1e-12)


def test_views_are_confused_by_the_share_that_is_not_the_other_views():
    first, second = vectors(0), vectors(1)
    size, share = len(first), shares([*first, *second], 0.5)
    total = -sum(math.log(1 - share[i][(i + size) % (2 * size)]) for i in range(2 * size))
    assert image_confusion(first, second, 0.5).item() == pytest.approx(total / (2 * size), rel=1e-10)


def test_gradients_are_finite_where_views_are_one():
    first = vectors(0).float().requires_grad_()
    for loss in (
        image_contrast([first, first.detach()], 0.07),
        image_confusion(first, first.detach(), 0.07),
        class_contrast(torch.ones_like(first) * first[:1], LABELS, 0.07),
    ):
        (slope,) = torch.autograd.grad(loss, first)
        assert slope.isfinite().all()


def test_gradients_are_those_of_the_formulas():
    given = tuple(vectors(seed).requires_grad_() for seed in range(2))
    assert torch.autograd.gradcheck(lambda *views: image_contrast(views, 0.5), given)
    assert torch.autograd.gradcheck(lambda *views: image_confusion(*views, 0.5), given)
    assert torch.autograd.gradcheck(lambda one: class_contrast(one, LABELS, 0.5), given[:1])
