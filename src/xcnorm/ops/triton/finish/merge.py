"""What programs wrote down apart, put together in a fixed order."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from xcnorm.ops.triton.finish.plan import Plan

ADDED: tl.constexpr = tl.constexpr(4096)
"""Values that a program adds up at a time."""
NEIGHBOURS: tl.constexpr = tl.constexpr(8)
"""Channels of a program that adds up, or merges: a sector."""


def sum_programs(count: int) -> int:
    """That `add` takes for so many sums of many terms."""
    return triton.cdiv(count, NEIGHBOURS.value)


def merge_moments(partials: Tensor, mean: Tensor, variance: Tensor, plan: Plan) -> None:
    """Statistics of every pool from those of its parts, ``(pools, parts, 2, channels)``: mean and squared distances."""
    _moments_of_pools[(plan.pools * sum_programs(plan.channels),)](
        partials, mean, variance, plan.rows, plan.parts, plan.channels, TILE=plan.tile, num_warps=8
    )


def merge_sums(partials: Tensor, plan: Plan) -> Tensor:
    """Sums over every pool, ``(pools, 2, channels)``, from those over its parts, ``(pools, parts, 2, channels)``."""
    sums = partials.new_empty((plan.pools, 2, plan.channels))
    blocks = sum_programs(2 * plan.channels)
    _sums_of_pools[(plan.pools * blocks,)](partials, sums, plan.parts, 2 * plan.channels, num_warps=8)
    return sums


def collect(
    dnorms: Tensor, dfactors: Tensor | None, tau: Tensor | None, dtaus: Tensor | None, dgains: Tensor | None,
    dtau: Tensor | None, dgain: Tensor | None, plan: Plan, *, each: bool,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Add up what programs found of the gradients.

    Args:
        dnorms: Of the norm, by blocks of channels.
        dfactors: Of the mask factor, likewise; None without.
        tau: What the exponent is learnt as; None without.
        dtaus: Of the exponent, by walks if every channel has its own, else by programs; None without.
        dgains: Of the gain, by walks; None without.
        dtau: That of what the exponent is learnt as, to be written.
        dgain: That of the gain, to be written.
        plan: Who the programs were.
        each: Whether every channel has an exponent of its own.

    Returns:
        Gradients of norm and factor.
    """
    places = dnorms[0].numel()
    several = plan.blocks > 1
    dnorm = torch.empty_like(dnorms[0]) if several else dnorms[0]
    dfactor = None if dfactors is None else torch.empty_like(dfactors[0]) if several else dfactors[0]
    if several or dtau is not None or dgain is not None:
        deep = triton.next_power_of_2(plan.blocks)
        programs = sum_programs(plan.channels) + 1
        programs += triton.cdiv(places, ADDED.value // deep) if several else 0
        _collect[(programs,)](
            dnorms, dnorm, dfactors, dfactor, tau, dtaus, dtau, dgains, dgain,
            plan.walks, plan.channels, plan.grid[0], plan.blocks, places,
            EACH=each, DEEP=deep, num_warps=8,
        )  # fmt: skip
    return dnorm, dfactor


@triton.jit(do_not_specialize=["rows", "parts"])
def _moments_of_pools(partials, mean, variance, rows, parts, channels, TILE: tl.constexpr):
    """Statistics of every pool, from those of its parts: Chan's formula, within some parts and across them."""
    PARTS: tl.constexpr = ADDED // NEIGHBOURS
    blocks = tl.cdiv(channels, NEIGHBOURS)
    pool = (tl.program_id(0) // blocks).to(tl.int64)
    channel = tl.program_id(0) % blocks * NEIGHBOURS + tl.arange(0, NEIGHBOURS)
    there = channel < channels
    centre = tl.zeros((NEIGHBOURS,), tl.float32)
    spread = tl.zeros((NEIGHBOURS,), tl.float32)
    seen = 0.0
    for first in range(0, parts, PARTS):
        part = first + tl.arange(0, PARTS).to(tl.int64)
        size = tl.minimum(tl.maximum(rows - part * TILE, 0), TILE).to(tl.float32)[:, None]
        at = partials + (pool * parts + part)[:, None] * 2 * channels + channel[None, :]
        mask = (part < parts)[:, None] & there[None, :]
        means = tl.load(at, mask=mask, other=0)
        spreads = tl.load(at + channels, mask=mask, other=0)
        count = tl.sum(size)
        middle = tl.sum(size * means, 0) / count
        means -= middle[None, :]
        middle -= centre
        spread += tl.sum(spreads + size * means * means, 0) + middle * middle * (seen * count / (seen + count))
        centre += middle * (count / (seen + count))
        seen += count
    tl.store(mean + pool * channels + channel, centre, mask=there)
    tl.store(variance + pool * channels + channel, spread / rows, mask=there)


@triton.jit(do_not_specialize=["terms"])
def _sums_of_pools(partials, sums, terms, count):
    """Sums over every pool, from those over its many parts."""
    blocks = tl.cdiv(count, NEIGHBOURS)
    pool = (tl.program_id(0) // blocks).to(tl.int64)
    block = tl.program_id(0) % blocks
    add(partials + pool * terms * count, sums + pool * count, terms, count, block, None, ADDED // NEIGHBOURS)


@triton.jit
def add(partials, sums, terms, count, block, raw, DEEP: tl.constexpr):
    """Add up ``(terms, count)``, for one block of columns: gradients, of ``raw`` through a softplus if it is given."""
    WIDE: tl.constexpr = ADDED // DEEP
    column = block.to(tl.int64) * WIDE + tl.arange(0, WIDE)
    there = (column < count)[None, :]
    total = tl.zeros((DEEP, WIDE), tl.float32)
    for first in range(0, terms, DEEP):
        term = first + tl.arange(0, DEEP)[:, None].to(tl.int64)
        total += tl.load(partials + term * count + column[None, :], mask=(term < terms) & there, other=0)
    result = tl.sum(total, 0)
    if raw is not None:
        result *= tl.sigmoid(tl.load(raw + column, mask=column < count, other=0))
    tl.store(sums + column, result, mask=column < count)


@triton.jit(do_not_specialize=["walks", "programs", "places"])
def _collect(
    dnorms, dnorm, dfactors, dfactor, tau, dtaus, dtau, dgains, dgain, walks, channels, programs, blocks, places,
    EACH: tl.constexpr, DEEP: tl.constexpr,
):  # fmt: skip
    """Add up: by channels, the shared exponent's, and by positions."""
    program = tl.program_id(0)
    wide = tl.cdiv(channels, NEIGHBOURS)
    if program < wide:
        if dgain is not None:
            add(dgains, dgain, walks, channels, program, None, ADDED // NEIGHBOURS)
        if EACH:
            add(dtaus, dtau, walks, channels, program, tau, ADDED // NEIGHBOURS)
    elif program == wide:
        if dtau is not None and not EACH:
            add(dtaus, dtau, programs, 1, program - wide, tau, ADDED)
    else:
        add(dnorms, dnorm, blocks, places, program - wide - 1, None, DEEP)
        if dfactor is not None:
            add(dfactors, dfactor, blocks, places, program - wide - 1, None, DEEP)
