"""From numerator and divisor of the similarity to a layer's output."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from xcnorm.ops.triton.finish.merge import merge_moments
from xcnorm.ops.triton.finish.plan import PART, each, make_plan
from xcnorm.ops.triton.finish.tile import parameters, place, read, respond, strip


def finish(
    v: Tensor,
    norm: Tensor,
    factor: Tensor | None,
    tau: Tensor | None,
    gain: Tensor | None,
    *,
    rectify: str,
    gain_after: bool,
    statistics: str,
    mean: Tensor | None = None,
    variance: Tensor | None = None,
    eps: float,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """From numerator and divisor of the similarity to a layer's output.

    Args:
        v: Numerator, ``(N, positions, C)``, contiguous.
        norm: Divisor, ``(N, positions, groups)``, contiguous, float32.
        factor: What the mask multiplies by, like ``norm``; None without a mask.
        tau: What the exponent of the sharpening is learnt as (`xcnorm.ops.finish.exponent`), one or one per channel,
            float32; None without sharpening.
        gain: One per channel, float32; None without.
        rectify: ``"relu"``, ``"abs"`` or ``"none"``.
        gain_after: Whether the gain follows the channel norm.
        statistics: Of the channel norm: ``"batch"``, ``"instance"``, ``"given"`` or ``"none"``.
        mean: The given one, ``(C,)``, float32.
        variance: The given one, the same.
        eps: Added to the variance.
        dtype: Of the output.

    Returns:
        The output ``(N, positions, C)``; mean and variance in float32, ``(N, C)`` of instances, ``(C,)`` of a batch
        (zero if it is empty), the given ones, or empty.
    """
    if statistics != "given":
        shape = {"batch": v.shape[2:], "instance": (v.shape[0], v.shape[2]), "none": (0,)}[statistics]
        mean, variance = (v.new_empty(shape, dtype=torch.float32) for _ in range(2))
    assert mean is not None
    assert variance is not None
    y = v.new_empty(v.shape, dtype=dtype)
    if not v.numel():
        return (y, mean, variance) if statistics == "given" else (y, mean.zero_(), variance.zero_())
    plan = make_plan(v, norm, statistics, v.element_size(), PART)
    options = {"RECTIFY": rectify, "EACH": each(tau), "AFTER": gain_after, **plan.tiling}
    if plan.statistics == "parts":
        partials = v.new_empty((plan.pools, plan.parts, 2, plan.channels), dtype=torch.float32)
        _moments_of_parts[plan.grid](v, norm, factor, tau, gain, partials, *plan.sizes, **options)
        merge_moments(partials, mean, variance, plan)
    _finish[plan.grid](
        v, norm, factor, tau, gain, mean, variance, y, eps, *plan.sizes, STATISTICS=plan.statistics, **options
    )
    return y, mean, variance


@triton.jit(do_not_specialize=["rows", "parts"])
def _moments_of_parts(
    v, norm, factor, tau, gain, partials, rows, parts, channels, groups, width,
    RECTIFY: tl.constexpr, EACH: tl.constexpr, AFTER: tl.constexpr, TILE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Statistics of every part of a pool."""
    # Last rows first: the cache has them from the kernel before, and afterwards the first rows for the kernel after.
    program = tl.num_programs(0) - 1 - tl.program_id(0)
    where, head = place(program, parts, groups, width, TILE, COLUMNS)
    tile, side = strip(where, head, 0, rows, channels, groups, TILE)
    values, inverse, scale = read((v, norm, factor), tile, side, False)
    exponent, before, _ = parameters(tau, gain, head, EACH, AFTER)
    _, _, _, sharp = respond(values, inverse, exponent, RECTIFY, tau is not None)
    count = tl.minimum(rows - where[2], TILE).to(tl.float32)
    mean, spread = _moments(sharp * scale[:, None] * before, side[1], count)
    at = partials + where[0] * 2 * channels + head[0]
    tl.store(at, mean, mask=head[1])
    tl.store(at + channels, spread, mask=head[1])


@triton.jit
def _moments(u, inside, count):
    """Mean of each channel over so many rows of a tile, and the sum of squared distances from it."""
    mean = tl.sum(u, 0) / count  # it is zero outside
    distance = tl.where(inside[:, None], u - mean[None, :], 0.0)
    return mean, tl.sum(distance * distance, 0)


@triton.jit(do_not_specialize=["rows", "parts"])
def _finish(
    v, norm, factor, tau, gain, mean, variance, y, eps, rows, parts, channels, groups, width,
    RECTIFY: tl.constexpr, EACH: tl.constexpr, AFTER: tl.constexpr, STATISTICS: tl.constexpr,
    TILE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The output, and the statistics where a tile holds a pool."""
    where, head = place(tl.program_id(0), parts, groups, width, TILE, COLUMNS)
    tile, side = strip(where, head, 0, rows, channels, groups, TILE)
    channel, there = head
    statistic = where[1] * channels + channel
    centre = tl.zeros((COLUMNS,), tl.float32)
    rate = centre + 1
    values, inverse, scale = read((v, norm, factor), tile, side, False)
    exponent, before, after = parameters(tau, gain, head, EACH, AFTER)
    if STATISTICS == "parts" or STATISTICS == "given":
        centre = tl.load(mean + statistic, mask=there, other=0)
        rate = tl.rsqrt(tl.load(variance + statistic, mask=there, other=1) + eps)
    _, _, _, sharp = respond(values, inverse, exponent, RECTIFY, tau is not None)
    u = sharp * scale[:, None] * before
    if STATISTICS == "own":
        centre, spread = _moments(u, side[1], rows)
        rate = tl.rsqrt(spread / rows + eps)
        tl.store(mean + statistic, centre, mask=there)
        tl.store(variance + statistic, spread / rows, mask=there)
    tl.store(y + tile[0], (u - centre[None, :]) * (rate[None, :] * after), mask=tile[1])
