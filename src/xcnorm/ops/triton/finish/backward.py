"""The gradient of the stages after a similarity, tile by tile."""

from __future__ import annotations

import triton
import triton.language as tl

from xcnorm.ops.triton.finish.forward import parameters, place_tile, read, sharpened, strip
from xcnorm.ops.triton.sums import ADDED, NEIGHBOURS, add

_LN2: tl.constexpr = tl.constexpr(0.6931471805599453)


@triton.jit
def _read_gradient(dy, strides, where, columns, first, mask, AGAIN: tl.constexpr):
    """The output's gradient on some rows of a tile, wherever it lies."""
    _, pool, start, _, _ = where
    row = tl.arange(0, mask.shape[0]).to(tl.int64)[:, None]
    column = columns[0].to(tl.int64)[None, :]
    offset = pool * strides[0] + (start + first) * strides[1] + row * strides[1] + column * strides[2]
    return tl.load(dy + offset, mask=mask, other=0, eviction_policy="evict_first" if AGAIN else "").to(tl.float32)


@triton.jit
def _sums(
    dy, strides, maps, where, columns, exponent, before, mean, rows, channels, groups,
    RECTIFY: tl.constexpr, SHARPEN: tl.constexpr, STRIP: tl.constexpr, TILE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sums of each channel over a tile: of the gradient, and of the gradient times the distance from the mean."""
    total = tl.zeros((COLUMNS,), tl.float32)
    along = tl.zeros((COLUMNS,), tl.float32)
    # With more under way: less is computed here than in `gradients_of_tile`.
    DOUBLE: tl.constexpr = min(2 * STRIP, TILE)
    for first in tl.range(0, TILE, DOUBLE, num_stages=1):
        tile, side = strip(where, columns, first, rows, channels, groups, DOUBLE)
        gradient = _read_gradient(dy, strides, where, columns, first, tile[1], False)
        values, inverse, scale = read(maps, tile, side, False)
        _, _, _, sharp = sharpened(values, inverse, exponent, RECTIFY, SHARPEN)
        total += tl.sum(gradient, 0)
        along += tl.sum(gradient * (sharp * scale[:, None] * before - mean[None, :]), 0)
    return total, along


@triton.jit(do_not_specialize=["rows", "parts"])
def sums_of_parts(
    dy, dy_pool, dy_row, dy_channel, product, divisor, factor, raw_tau, gain, pool_mean, partials,
    rows, parts, channels, groups, width,
    RECTIFY: tl.constexpr, AFTER: tl.constexpr, STRIP: tl.constexpr, TILE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Those sums over every part of a pool."""
    program = tl.num_programs(0) - 1 - tl.program_id(0)  # as in the kernel of the statistics
    where, columns = place_tile(program, parts, groups, width, TILE, COLUMNS)
    exponent, before, _ = parameters(raw_tau, gain, columns, AFTER)
    mean = tl.load(pool_mean + where[1] * channels + columns[0], mask=columns[1], other=0)
    total, along = _sums(
        dy, (dy_pool, dy_row, dy_channel), (product, divisor, factor), where, columns, exponent, before, mean,
        rows, channels, groups, RECTIFY, raw_tau is not None, STRIP, TILE, COLUMNS,
    )  # fmt: skip
    at = partials + where[0] * 2 * channels + columns[0]
    tl.store(at, total, mask=columns[1])
    tl.store(at + channels, along, mask=columns[1])


@triton.jit(do_not_specialize=["terms"])
def sums_of_pools(partials, sums, terms, count):
    """Sums over every pool, from those over its many parts."""
    blocks = tl.cdiv(count, NEIGHBOURS)
    pool = (tl.program_id(0) // blocks).to(tl.int64)
    block = tl.program_id(0) % blocks
    add(partials + pool * terms * count, sums + pool * count, terms, count, block, None, ADDED // NEIGHBOURS)


@triton.jit(do_not_specialize=["rows", "parts", "places"])
def gradients_of_tile(
    dy, dy_pool, dy_row, dy_channel, product, divisor, factor, raw_tau, gain, pool_mean, pool_variance, sums,
    dproduct, ddivisors, dfactors, dtaus, dgains, eps, places, rows, parts, channels, groups, width,
    RECTIFY: tl.constexpr, AFTER: tl.constexpr, STATISTICS: tl.constexpr, STRIP: tl.constexpr,
    TILE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """All gradients: of divisor and factor by blocks of channels, of tau by programs, of the gain by rows of tiles."""
    where, columns = place_tile(tl.program_id(0), parts, groups, width, TILE, COLUMNS)
    tile_row, pool, _, _, block = where
    channel, exists = columns
    statistic = pool * channels + channel
    maps, strides = (product, divisor, factor), (dy_pool, dy_row, dy_channel)
    exponent, before, after = parameters(raw_tau, gain, columns, AFTER)
    mean = tl.zeros((COLUMNS,), tl.float32)
    rate = mean + 1
    if STATISTICS != "none":
        mean = tl.load(pool_mean + statistic, mask=exists, other=0)
        rate = tl.rsqrt(tl.load(pool_variance + statistic, mask=exists, other=1) + eps)
    # What entered the norm has the gradient a * gradient - b * u - c.
    a = after * rate[None, :]
    b = tl.zeros((1, 1), tl.float32)
    c = b
    MEASURED: tl.constexpr = STATISTICS == "own" or STATISTICS == "parts"
    if MEASURED:
        if STATISTICS == "own":
            total, along = _sums(
                dy, strides, maps, where, columns, exponent, before, mean,
                rows, channels, groups, RECTIFY, raw_tau is not None, STRIP, TILE, COLUMNS,
            )  # fmt: skip
        else:
            total = tl.load(sums + pool * channels + statistic, mask=exists, other=0)
            along = tl.load(sums + (pool + 1) * channels + statistic, mask=exists, other=0)
        per_row = 1.0 / rows
        along *= rate * rate * per_row
        b = a * along[None, :]
        c = a * (total * per_row - along * mean)[None, :]
    AGAIN: tl.constexpr = STATISTICS == "own" and STRIP < TILE  # one strip stays in registers
    for_tau = tl.zeros((STRIP, COLUMNS), tl.float32)
    for_gain = tl.zeros((STRIP, COLUMNS), tl.float32)
    for first in tl.range(0, TILE, STRIP, num_stages=1):
        tile, side = strip(where, columns, first, rows, channels, groups, STRIP)
        gradient = _read_gradient(dy, strides, where, columns, first, tile[1], AGAIN)
        values, inverse, scale = read(maps, tile, side, AGAIN)
        similarity, log, power, sharp = sharpened(values, inverse, exponent, RECTIFY, raw_tau is not None)
        scaled = sharp * scale[:, None]
        du = a * gradient
        if MEASURED:
            du -= (b * before) * scaled + c
        dsimilarity = du * power * (before * exponent)
        if RECTIFY == "relu" and raw_tau is None:
            dsimilarity = tl.where(similarity <= 0, 0.0, dsimilarity)
        elif RECTIFY == "abs":
            dsimilarity = tl.where(similarity < 0, -dsimilarity, tl.where(similarity > 0, dsimilarity, 0.0))
        back = scale * inverse
        tl.store(dproduct + tile[0], dsimilarity * back[:, None], mask=tile[1])
        # All that is summed is zero outside the map, as the similarity is there, and the sharpened.
        position = block.to(tl.int64) * places + side[0]
        tl.store(ddivisors + position, -tl.sum(dsimilarity * similarity, 1) * back, mask=side[1])
        if factor is not None:
            tl.store(dfactors + position, tl.sum(du * sharp * before, 1), mask=side[1])
        if gain is not None:
            for_gain += gradient * (scaled - mean[None, :]) if AFTER else du * scaled
        if raw_tau is not None:
            for_tau += du * scaled * log
    if gain is not None:
        amount = tl.sum(for_gain, 0) * rate if AFTER else tl.sum(for_gain, 0)
        tl.store(dgains + tile_row * channels + channel, amount, mask=exists)
    if raw_tau is not None:
        amounts = tl.sum(for_tau, 0)[None, :] * before * _LN2
        tl.store(dtaus + tl.program_id(0), tl.sum(amounts))


@triton.jit(do_not_specialize=["tile_rows", "programs", "places"])
def collect(
    ddivisors, ddivisor, dfactors, dfactor, raw_tau, dtaus, dtau, dgains, dgain,
    tile_rows, channels, programs, blocks, places, DEEP: tl.constexpr,
):  # fmt: skip
    """Add up: the gain's gradient by channels, tau's, and those of divisor and factor by positions."""
    program = tl.program_id(0)
    wide = tl.cdiv(channels, NEIGHBOURS)
    if program < wide:
        if dgain is not None:
            add(dgains, dgain, tile_rows, channels, program, None, ADDED // NEIGHBOURS)
    elif program == wide:
        if dtau is not None:
            add(dtaus, dtau, programs, 1, program - wide, raw_tau, ADDED)
    else:
        add(ddivisors, ddivisor, blocks, places, program - wide - 1, None, DEEP)
        if dfactor is not None:
            add(dfactors, dfactor, blocks, places, program - wide - 1, None, DEEP)
