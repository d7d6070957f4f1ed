"""d-SNE's hinge against loops over its images."""

import pytest
import torch

from xcnorm.methods.dsne import DSNE

SMALL = {"weight": 0.5}


def problem(count, classes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    squares = 3 * torch.rand(count, count, dtype=torch.float64, generator=generator)
    labels, others = (torch.randint(classes, (count,), generator=generator) for _ in range(2))
    return squares, labels[:, None] == others


def hinge(distances, same, margin):
    """Of one image, from lists over the other stream."""
    own = [distance for distance, alike in zip(distances, same, strict=True) if alike]
    foreign = [distance for distance, alike in zip(distances, same, strict=True) if not alike]
    return max(0.0, max(own, default=0.0) - min(foreign, default=max(distances)) + margin)


@pytest.mark.parametrize(("count", "classes"), [(16, 10), (20, 4), (8, 2), (5, 1)])
@pytest.mark.parametrize("margin", [1.0, 0.3])
def test_the_loss_is_the_mean_hinge_of_all_images_of_both_streams(count, classes, margin):
    """Among sixteen images of ten classes some have no partner; of one class there is nothing else."""
    squares, same = problem(count, classes)
    seen_from_first = [hinge(squares[:, t].tolist(), same[:, t].tolist(), margin) for t in range(count)]
    seen_from_second = [hinge(squares[s].tolist(), same[s].tolist(), margin) for s in range(count)]
    expected = sum(seen_from_first) / count / 2 + sum(seen_from_second) / count / 2
    assert DSNE(margin=margin).comparison(squares, same).item() == pytest.approx(expected, rel=1e-12)


def test_there_are_images_without_a_partner_in_the_problem():
    _, same = problem(16, 10)
    assert not same.any(0).all()


def test_the_farthest_of_the_own_class_is_pulled_and_the_nearest_other_pushed():
    squares = torch.tensor([[0.1], [0.6], [0.5], [2.0]], dtype=torch.float64, requires_grad=True)
    same = torch.tensor([[True], [True], [False], [False]])
    DSNE().hinge(squares, same).backward()
    assert squares.grad.flatten().tolist() == [0, 1, -1, 0]


def test_nothing_moves_where_all_are_of_one_class_or_far_enough_apart():
    squares = torch.tensor([[0.1, 0.3], [0.6, 2.0]], dtype=torch.float64, requires_grad=True)
    same = torch.tensor([[True, True], [True, False]])
    DSNE().hinge(squares, same).backward()
    assert not squares.grad.any()
