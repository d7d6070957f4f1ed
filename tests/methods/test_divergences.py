"""Terms that compare the images of a batch, against sums over images written out."""

import math

import pytest
import torch

from xcnorm.methods.divergences import (
    classwise_discrepancy,
    dependence_bound,
    gaussian_surprise,
    supervised_contrast,
)

# Classes of three, two and one; 3 is absent.
LABELS = torch.tensor([0, 2, 0, 1, 1, 0])
COUNT = len(LABELS)


def vectors(seed, size=4):
    return torch.randn(COUNT, size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def squared(one, other):
    return (one - other).square().sum()


def cosine(one, other):
    return ((one @ other) / (one @ one).sqrt() / (other @ other).sqrt()).item()


def contrast_by_hand(first, second, labels, temperature):
    views, kinds = [*first.detach(), *second.detach()], labels.tolist() * 2
    total = 0.0
    for anchor, (view, kind) in enumerate(zip(views, kinds, strict=True)):
        others = [place for place in range(len(views)) if place != anchor]
        weights = {place: math.exp(cosine(view, views[place]) / temperature) for place in others}
        friends = [place for place in others if kinds[place] == kind]
        total -= sum(math.log(weights[place] / sum(weights.values())) for place in friends) / len(friends)
    return total / len(views)


def discrepancy_by_hand(first, second, labels):
    """Pair by pair; can be differentiated, but for the widths of the kernels."""
    found = []
    for kind in set(labels.tolist()):
        one, other = first[labels == kind], second[labels == kind]
        both = [*one.detach(), *other.detach()]
        mean = sum(squared(a, b) for a in both for b in both) / (len(both) * (len(both) - 1))

        def kernel(a, b, mean=mean):
            return sum(torch.exp(-squared(a, b) / (mean * 2.0**power)) for power in (-2, -1, 0, 1, 2))

        total = sum(kernel(a, b) for a in one for b in one) + sum(kernel(a, b) for a in other for b in other)
        total -= 2 * sum(kernel(a, b) for a in one for b in other)
        found.append(total / len(one) ** 2)
    return sum(found) / len(found)


@pytest.mark.parametrize("temperature", [0.07, 1.0])
def test_supervised_contrast_is_a_mean_over_all_vectors_and_their_friends(temperature):
    first, second = vectors(0), vectors(1) * 3
    expected = contrast_by_hand(first, second, LABELS, temperature)
    assert supervised_contrast(first, second, LABELS, temperature).item() == pytest.approx(expected, rel=1e-12)


def test_the_surprise_is_the_negative_log_likelihood_of_normal_values():
    mean, log_variance, values = vectors(0), vectors(1), vectors(2)
    normal = torch.distributions.Normal(mean, (log_variance / 2).exp())
    expected = -2 * normal.log_prob(values).mean() - math.log(2 * math.pi)
    torch.testing.assert_close(gaussian_surprise(mean, log_variance, values), expected, rtol=1e-12, atol=0)


def test_the_dependence_bound_compares_own_predictions_with_others():
    mean, log_variance, values = vectors(0), vectors(1), vectors(2)
    order = torch.tensor([3, 0, 5, 1, 2, 4])
    normal = torch.distributions.Normal(mean, (log_variance / 2).exp())
    expected = (normal.log_prob(values) - normal.log_prob(values[order])).sum(1).mean()
    found = dependence_bound(mean, log_variance, values, order)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    assert dependence_bound(mean, log_variance, values, torch.arange(COUNT)).item() == 0
    assert dependence_bound(values, torch.zeros_like(mean), values, order).item() > 0


def test_the_discrepancy_is_the_mean_over_classes_that_there_are():
    first, second = vectors(0), vectors(1) + 1
    expected = discrepancy_by_hand(first, second, LABELS)
    torch.testing.assert_close(classwise_discrepancy(first, second, LABELS), expected, rtol=1e-12, atol=0)
    assert classwise_discrepancy(first, first, LABELS).item() == pytest.approx(0, abs=1e-12)


def test_single_precision_keeps_small_differences_of_large_vectors():
    first, second = vectors(0, 256) / 100 + 10, vectors(1, 256) / 100 + 10
    exact = classwise_discrepancy(first, second, LABELS).item()
    assert classwise_discrepancy(first.float(), second.float(), LABELS).item() == pytest.approx(exact, rel=1e-3)


def test_gradients_are_those_of_the_sums():
    first, second = vectors(0).requires_grad_(), (vectors(1) + 0.5).requires_grad_()
    assert torch.autograd.gradcheck(lambda *views: supervised_contrast(*views, LABELS, 0.5), (first, second))
    found = torch.autograd.grad(classwise_discrepancy(first, second, LABELS), (first, second))
    expected = torch.autograd.grad(discrepancy_by_hand(first, second, LABELS), (first, second))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_vectors_that_are_all_one_have_finite_gradients():
    first = torch.ones(COUNT, 4, requires_grad=True)
    for loss in (
        classwise_discrepancy(first, first.detach(), LABELS),
        supervised_contrast(first, first.detach(), LABELS, 0.07),
    ):
        (gradient,) = torch.autograd.grad(loss, first)
        assert gradient.isfinite().all()
