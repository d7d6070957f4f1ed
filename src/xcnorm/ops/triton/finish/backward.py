"""Gradients of everything after the correlation."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from xcnorm.ops.triton.finish.merge import collect, merge_sums
from xcnorm.ops.triton.finish.plan import PART, each, make_plan
from xcnorm.ops.triton.finish.tile import parameters, place, read, read_gradient, respond, strip

_LN2: tl.constexpr = tl.constexpr(0.6931471805599453)


def finish_backward(
    dy: Tensor,
    v: Tensor,
    norm: Tensor,
    factor: Tensor | None,
    tau: Tensor | None,
    gain: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    *,
    rectify: str,
    gain_after: bool,
    statistics: str,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of `finish`, of all but given statistics.

    Args:
        dy: Gradient of the output.
        v: As `finish` took it, like everything that is not explained here.
        norm: See there.
        factor: See there.
        tau: See there.
        gain: See there.
        mean: As `finish` returned it.
        variance: As `finish` returned it.
        rectify: See there.
        gain_after: See there.
        statistics: See there.
        eps: See there.

    Returns:
        Gradients of ``v``, ``norm``, ``factor``, ``tau`` and ``gain``, each of its tensor's shape and dtype.
    """
    if not v.numel():
        dfactor, dtau, dgain = (None if t is None else torch.zeros_like(t) for t in (factor, tau, gain))
        return torch.zeros_like(v), torch.zeros_like(norm), dfactor, dtau, dgain
    plan = make_plan(v, norm, statistics, max(v.element_size(), dy.element_size()), 2 * PART)
    options = {"RECTIFY": rectify, "EACH": each(tau), "AFTER": gain_after, "STRIP": plan.strip, **plan.tiling}
    # Read as it lies; copied only where images are pooled whose rows are not evenly spaced.
    dy = dy.reshape(plan.pools, plan.rows, plan.channels)
    sums = None
    if plan.statistics == "parts":
        partials = v.new_empty((plan.pools, plan.parts, 2, plan.channels), dtype=torch.float32)
        _sums_of_parts[plan.grid](dy, *dy.stride(), v, norm, factor, tau, gain, mean, partials, *plan.sizes, **options)
        sums = merge_sums(partials, plan)
    dv = torch.empty_like(v)
    dnorms = norm.new_empty((plan.blocks, *norm.shape))
    dfactors = None if factor is None else torch.empty_like(dnorms)
    dtaus = None if tau is None else tau.new_empty((plan.walks, plan.channels) if each(tau) else plan.grid)
    dgains = None if gain is None else gain.new_empty((plan.walks, plan.channels))
    _backward[plan.grid](
        dy, *dy.stride(), v, norm, factor, tau, gain, mean, variance, sums, dv, dnorms, dfactors, dtaus, dgains, eps,
        norm.numel(), *plan.sizes, STATISTICS=plan.statistics, **options,
    )  # fmt: skip
    dtau, dgain = (None if t is None else torch.empty_like(t) for t in (tau, gain))
    dnorm, dfactor = collect(dnorms, dfactors, tau, dtaus, dgains, dtau, dgain, plan, each=each(tau))
    return dv, dnorm, dfactor, dtau, dgain


@triton.jit
def _sums(
    dy, strides, maps, where, head, exponent, before, centre, rows, channels, groups,
    RECTIFY: tl.constexpr, SHARPEN: tl.constexpr, STRIP: tl.constexpr, TILE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sums of each channel over a tile: of the gradient, and of the gradient times the distance from the mean."""
    total = tl.zeros((COLUMNS,), tl.float32)
    along = tl.zeros((COLUMNS,), tl.float32)
    DOUBLE: tl.constexpr = min(2 * STRIP, TILE)  # with more under way: less is computed here than in `_backward`
    for first in tl.range(0, TILE, DOUBLE, num_stages=1):
        tile, side = strip(where, head, first, rows, channels, groups, DOUBLE)
        gradient = read_gradient(dy, strides, where, head, first, tile[1], False)
        values, inverse, scale = read(maps, tile, side, False)
        _, _, _, sharp = respond(values, inverse, exponent, RECTIFY, SHARPEN)
        total += tl.sum(gradient, 0)
        along += tl.sum(gradient * (sharp * scale[:, None] * before - centre[None, :]), 0)
    return total, along


@triton.jit(do_not_specialize=["rows", "parts"])
def _sums_of_parts(
    dy, dy_pool, dy_row, dy_channel, v, norm, factor, tau, gain, mean, partials, rows, parts, channels, groups, width,
    RECTIFY: tl.constexpr, EACH: tl.constexpr, AFTER: tl.constexpr, STRIP: tl.constexpr,
    TILE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The same of every part of a pool."""
    program = tl.num_programs(0) - 1 - tl.program_id(0)  # as in the kernel of the statistics
    where, head = place(program, parts, groups, width, TILE, COLUMNS)
    exponent, before, _ = parameters(tau, gain, head, EACH, AFTER)
    centre = tl.load(mean + where[1] * channels + head[0], mask=head[1], other=0)
    total, along = _sums(
        dy, (dy_pool, dy_row, dy_channel), (v, norm, factor), where, head, exponent, before, centre,
        rows, channels, groups, RECTIFY, tau is not None, STRIP, TILE, COLUMNS,
    )  # fmt: skip
    at = partials + where[0] * 2 * channels + head[0]
    tl.store(at, total, mask=head[1])
    tl.store(at + channels, along, mask=head[1])


@triton.jit(do_not_specialize=["rows", "parts", "places"])
def _backward(
    dy, dy_pool, dy_row, dy_channel, v, norm, factor, tau, gain, mean, variance, sums,
    dv, dnorms, dfactors, dtaus, dgains, eps, places, rows, parts, channels, groups, width,
    RECTIFY: tl.constexpr, EACH: tl.constexpr, AFTER: tl.constexpr, STATISTICS: tl.constexpr, STRIP: tl.constexpr,
    TILE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """All gradients: of norm and factor by blocks of channels, of the parameters by walks."""
    where, head = place(tl.program_id(0), parts, groups, width, TILE, COLUMNS)
    walk, pool, _, _, block = where
    channel, there = head
    statistic = pool * channels + channel
    maps, strides = (v, norm, factor), (dy_pool, dy_row, dy_channel)
    exponent, before, after = parameters(tau, gain, head, EACH, AFTER)
    centre = tl.zeros((COLUMNS,), tl.float32)
    rate = centre + 1
    if STATISTICS != "none":
        centre = tl.load(mean + statistic, mask=there, other=0)
        rate = tl.rsqrt(tl.load(variance + statistic, mask=there, other=1) + eps)
    # What entered the norm has the gradient a * gradient - b * u - c.
    a = after * rate[None, :]
    b = tl.zeros((1, 1), tl.float32)
    c = b
    MEASURED: tl.constexpr = STATISTICS == "own" or STATISTICS == "parts"
    if MEASURED:
        if STATISTICS == "own":
            total, along = _sums(
                dy, strides, maps, where, head, exponent, before, centre,
                rows, channels, groups, RECTIFY, tau is not None, STRIP, TILE, COLUMNS,
            )  # fmt: skip
        else:
            total = tl.load(sums + pool * channels + statistic, mask=there, other=0)
            along = tl.load(sums + (pool + 1) * channels + statistic, mask=there, other=0)
        share = 1.0 / rows
        along *= rate * rate * share
        b = a * along[None, :]
        c = a * (total * share - along * centre)[None, :]
    AGAIN: tl.constexpr = STATISTICS == "own" and STRIP < TILE  # one strip stays in registers
    for_tau = tl.zeros((STRIP, COLUMNS), tl.float32)
    for_gain = tl.zeros((STRIP, COLUMNS), tl.float32)
    for first in tl.range(0, TILE, STRIP, num_stages=1):
        tile, side = strip(where, head, first, rows, channels, groups, STRIP)
        gradient = read_gradient(dy, strides, where, head, first, tile[1], AGAIN)
        values, inverse, scale = read(maps, tile, side, AGAIN)
        similarity, log, power, sharp = respond(values, inverse, exponent, RECTIFY, tau is not None)
        scaled = sharp * scale[:, None]
        du = a * gradient
        if MEASURED:
            du -= (b * before) * scaled + c
        dsimilarity = du * power * (before * exponent)
        if RECTIFY == "relu" and tau is None:
            dsimilarity = tl.where(similarity <= 0, 0.0, dsimilarity)
        elif RECTIFY == "abs":
            dsimilarity = tl.where(similarity < 0, -dsimilarity, tl.where(similarity > 0, dsimilarity, 0.0))
        back = scale * inverse
        tl.store(dv + tile[0], dsimilarity * back[:, None], mask=tile[1])
        # All that is summed is zero outside the map, as the similarity is there, and the sharpened.
        position = block.to(tl.int64) * places + side[0]
        tl.store(dnorms + position, -tl.sum(dsimilarity * similarity, 1) * back, mask=side[1])
        if factor is not None:
            tl.store(dfactors + position, tl.sum(du * sharp * before, 1), mask=side[1])
        if gain is not None:
            for_gain += gradient * (scaled - centre[None, :]) if AFTER else du * scaled
        if tau is not None:
            for_tau += du * scaled * log
    if gain is not None:
        amount = tl.sum(for_gain, 0) * rate if AFTER else tl.sum(for_gain, 0)
        tl.store(dgains + walk * channels + channel, amount, mask=there)
    if tau is not None:
        amounts = tl.sum(for_tau, 0)[None, :] * before * _LN2
        if EACH:
            tl.store(dtaus + walk * channels + channel[None, :], amounts, mask=there[None, :])
        else:
            tl.store(dtaus + tl.program_id(0), tl.sum(amounts))
