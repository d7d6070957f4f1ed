"""Permutations that are easy to tell apart: greedily, each as far as possible from those before it."""

from __future__ import annotations

from functools import cache
from itertools import chain, permutations

import torch
from torch import Tensor

_SEED = 0  # the set is a constant, as the file that comes with the published program is


@cache
def far_apart(length: int, count: int) -> Tensor:
    """Permutations of a few things, far from one another and from the order in which nothing is moved.

    Distance is Hamming's: the number of places that hold something else. The next permutation is the one whose smallest
    distance to those before it is largest; among equals the one with the largest sum of distances; and among those one
    by chance, with a fixed seed. The unmoved order counts as the first of those before, but is not part of the result.

    All permutations are looked at, which limits `length` to about 9.

    Args:
        length: The number of things.
        count: The number of permutations.

    Returns:
        ``(count, length)``, int64.

    Example:
        >>> far_apart(3, 2)
        tensor([[1, 2, 0],
                [2, 0, 1]])
    """
    every = torch.frombuffer(bytearray(chain.from_iterable(permutations(range(length)))), dtype=torch.uint8)
    every = every.view(-1, length)
    generator = torch.Generator().manual_seed(_SEED)
    smallest = total = (every != every[0]).sum(1)
    chosen: list[int] = []
    while len(chosen) < count:
        farthest = torch.where(smallest == smallest.max(), total, -1)
        equals = (farthest == farthest.max()).nonzero()[:, 0]
        chosen.append(int(equals[torch.randint(len(equals), (), generator=generator)]))
        distance = (every != every[chosen[-1]]).sum(1)
        smallest, total = smallest.minimum(distance), total + distance
    return every[chosen].long()
