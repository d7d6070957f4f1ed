"""CCSA's contrastive loss against loops over its pairs."""

import pytest
import torch

from xcnorm.methods.ccsa import CCSA

SMALL = {"weight": 0.5}


def problem(count, classes, seed=0):
    """Squared distances on both sides of the margin, labels of two streams, and turns."""
    generator = torch.Generator().manual_seed(seed)
    squares = 3 * torch.rand(count, count, dtype=torch.float64, generator=generator)
    labels, others = (torch.randint(classes, (count,), generator=generator) for _ in range(2))
    turns = torch.rand(count, count, dtype=torch.float64, generator=generator)
    return squares, labels[:, None] == others, turns


@pytest.mark.parametrize(("count", "classes"), [(12, 10), (20, 4), (9, 3), (6, 2), (5, 1)])
@pytest.mark.parametrize("margin", [1.0, 1.3])
def test_the_loss_is_the_mean_over_all_pairs_of_one_class_and_three_times_as_many_others(count, classes, margin):
    """Or all others, where there are fewer, or none."""
    squares, same, turns = problem(count, classes)
    pairs = [(i, j) for i in range(count) for j in range(count)]
    positives = [pair for pair in pairs if same[pair]]
    others = sorted((pair for pair in pairs if not same[pair]), key=lambda pair: turns[pair].item())
    negatives = others[: 3 * len(positives)]
    total = sum(squares[pair].item() for pair in positives)
    total += sum(max(0.0, margin - squares[pair].item() ** 0.5) ** 2 for pair in negatives)
    expected = total / (len(positives) + len(negatives))
    assert CCSA(margin=margin).comparison(squares, same, turns).item() == pytest.approx(expected, rel=1e-12)


def test_without_a_pair_of_one_class_there_is_nothing_to_learn():
    squares, same, turns = problem(6, 3)
    squares.requires_grad_()
    loss = CCSA().comparison(squares, torch.zeros_like(same), turns)
    loss.backward()
    assert loss.item() == 0
    assert not squares.grad.any()


def test_pairs_of_one_class_are_pulled_together_and_others_pushed_apart_up_to_the_margin():
    squares, same, turns = problem(20, 4)
    squares.requires_grad_()
    CCSA().comparison(squares, same, turns).backward()
    assert (squares.grad[same] > 0).all()
    assert (squares.grad[~same & (squares >= 1)] == 0).all()
    pushed = squares.grad[~same & (squares < 1)]
    assert (pushed <= 0).all()
    assert (pushed < 0).any()


def test_every_pair_of_two_classes_has_the_same_chance():
    count, draws = 10, 2000
    squares, same, _ = problem(count, 5)
    generator = torch.Generator().manual_seed(1)
    squares = torch.full_like(squares, 0.01).requires_grad_()
    for _ in range(draws):
        turns = torch.rand(count, count, dtype=torch.float64, generator=generator)
        CCSA().comparison(squares, same, turns).backward()
    pushed = squares.grad[~same]
    chance = 3 * same.sum().item() / (~same).sum().item()
    assert chance < 1
    times = pushed / pushed.sum() * 3 * same.sum() * draws  # each push is the same
    assert (times - chance * draws).abs().max() < 5 * (draws * chance * (1 - chance)) ** 0.5
