"""Sums over programs: what each wrote down apart is added in a fixed order, the same in every run."""

from __future__ import annotations

import triton
import triton.language as tl

ADDED: tl.constexpr = tl.constexpr(4096)
"""Values that a program adds up at a time."""
NEIGHBOURS: tl.constexpr = tl.constexpr(8)
"""Sums of a program, where there are many terms: a sector of the cache."""


def sum_programs(count: int) -> int:
    """How many programs `add` takes for so many sums of many terms."""
    return triton.cdiv(count, NEIGHBOURS.value)


@triton.jit
def add(partials, sums, terms, count, block, raw, DEEP: tl.constexpr):
    """Add up ``(terms, count)``, for one block of columns: gradients, of ``raw`` through a softplus if it is given."""
    WIDE: tl.constexpr = ADDED // DEEP
    column = block.to(tl.int64) * WIDE + tl.arange(0, WIDE)
    exists = (column < count)[None, :]
    total = tl.zeros((DEEP, WIDE), tl.float32)
    for first in range(0, terms, DEEP):
        term = first + tl.arange(0, DEEP)[:, None].to(tl.int64)
        total += tl.load(partials + term * count + column[None, :], mask=(term < terms) & exists, other=0)
    result = tl.sum(total, 0)
    if raw is not None:
        result *= tl.sigmoid(tl.load(raw + column, mask=column < count, other=0))
    tl.store(sums + column, result, mask=column < count)
