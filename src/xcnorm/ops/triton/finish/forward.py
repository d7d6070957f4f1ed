"""The stages after a similarity, tile by tile: how maps are cut into tiles, what is read, the forward's kernels."""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

from xcnorm.functional.sharpen import SHARPEN_FLOOR, TAU_MINIMUM
from xcnorm.ops.triton.sums import ADDED, NEIGHBOURS

PART = 8192  # values of a tile that does not hold a pool, at most; twice as many where it is worked on in strips
_POOL = 32768  # bytes of a map in a tile that holds a pool, at most
_STRIP = 2048  # values of a strip at most, with four warps
_SECTOR = 32  # bytes of a tile's row at least: memory is read in such portions
_WIDE = 64  # channels of a tile at most
_LOW = 64  # rows of a tile at least, unless it holds a pool: its sums take little room beside it
_PROGRAMS = 512  # at least, as far as these bounds allow
_REGISTERS = 128  # of a thread at most: room for two programs of eight warps on a multiprocessor
_INTERPRETED: tl.constexpr = tl.constexpr(triton.knobs.runtime.interpret)
_FLOOR: tl.constexpr = tl.constexpr(SHARPEN_FLOOR)
_TAU_MINIMUM: tl.constexpr = tl.constexpr(TAU_MINIMUM)


class Tiles(NamedTuple):
    """How the work falls to programs, a tile to each.

    Attributes:
        pools: That have statistics of their own.
        rows: Of a pool.
        parts: Tiles that a pool is as high as.
        channels: Of a row.
        groups: Of channels.
        width: Channels of a group.
        wide: Tiles that a group is as wide as.
        tile: Rows of a tile.
        columns: Channels of a tile.
        warps: Of a program.
        statistics: Whence: each program's ``"own"`` tile, tiles that are ``"parts"``, ``"given"`` or ``"none"``.
    """

    pools: int
    rows: int
    parts: int
    channels: int
    groups: int
    width: int
    wide: int
    tile: int
    columns: int
    warps: int
    statistics: str

    @property
    def grid(self) -> tuple[int]:
        """Neighbouring programs have the same rows: they share lines of the cache."""
        return (self.pools * self.parts * self.groups * self.wide,)

    @property
    def sizes(self) -> tuple[int, ...]:
        """What every kernel finds its place by."""
        return self.rows, self.parts, self.channels, self.groups, self.width

    @property
    def constants(self) -> dict[str, int]:
        """What every kernel is compiled for."""
        return {"TILE": self.tile, "COLUMNS": self.columns, "num_warps": self.warps, "maxnreg": _REGISTERS}

    @property
    def strip(self) -> int:
        """Rows of a tile that the kernels of the gradient compute with at a time."""
        return min(self.tile, max(1, _STRIP * self.warps // 4 // self.columns))


def cut(product: Tensor, divisor: Tensor, statistics: str, size: int, part: int) -> Tiles:
    """Cut maps whose values have so many bytes into tiles, in parts of so many values at most."""
    images, positions, channels = product.shape
    groups = divisor.shape[2]
    width = channels // groups
    pools, rows = (images, positions) if statistics == "instance" else (1, images * positions)

    def programs() -> int:
        return pools * triton.cdiv(rows, tile) * groups * triton.cdiv(width, columns)

    tile = triton.next_power_of_2(rows)
    columns = min(_WIDE, triton.next_power_of_2(width))
    narrow = _SECTOR // size
    measured = statistics in ("batch", "instance")
    if measured and tile * _SECTOR <= _POOL:
        whence = "own"
        columns = min(columns, _POOL // size // tile)
        while columns > narrow and programs() < _PROGRAMS:
            columns //= 2
    else:
        whence = "parts" if measured else statistics
        tile = min(tile, part // max(columns, narrow))
        while tile > _LOW and programs() < _PROGRAMS:
            tile //= 2
    parts, wide, warps = triton.cdiv(rows, tile), triton.cdiv(width, columns), 8 if tile * columns > 4096 else 4
    return Tiles(pools, rows, parts, channels, groups, width, wide, tile, columns, warps, whence)


@triton.jit
def place_tile(program, parts, groups, width, TILE: tl.constexpr, COLUMNS: tl.constexpr):
    """Where a program works.

    Returns:
        Its row of tiles, that row's pool, the tile's first row there, its group and its block of the group's channels;
        then its columns: the channel of each, and whether it exists.
    """
    blocks = tl.cdiv(width, COLUMNS)
    tile_row = (program // (blocks * groups)).to(tl.int64)
    group = program // blocks % groups
    column = program % blocks * COLUMNS + tl.arange(0, COLUMNS)
    where = (tile_row, tile_row // parts, tile_row % parts * TILE, group, program % blocks)
    return where, (group * width + column, column < width)


@triton.jit
def strip(where, columns, first, rows, channels, groups, STRIP: tl.constexpr):
    """Some rows of a tile: offsets and which of them exist, of values and of positions."""
    _, pool, start, group, _ = where
    row = tl.arange(0, STRIP)
    exists = row < tl.minimum(rows - start - first, STRIP).to(tl.int32)
    base = pool * rows + start + first
    values = base * channels + row[:, None] * channels + columns[0][None, :]
    return (values, exists[:, None] & columns[1][None, :]), (base * groups + row * groups + group, exists)


@triton.jit
def parameters(raw_tau, gain, columns, AFTER: tl.constexpr):
    """Exponent, gain before the channel norm and gain after it, to multiply tiles with; one where there is none."""
    one = tl.full((1, 1), 1.0, tl.float32)
    exponent = one
    amplitude = one
    if raw_tau is not None:
        raw = one * tl.load(raw_tau)
        # As `xcnorm.functional.sharpen.exponent`.
        exponent = tl.where(raw > 20, raw, tl.log(1 + tl.exp(raw))) + _TAU_MINIMUM
    if gain is not None:
        amplitude = tl.load(gain + columns[0], mask=columns[1], other=1)[None, :]
    before = one if AFTER else amplitude
    after = amplitude if AFTER else one
    return exponent, before, after


@triton.jit
def read(maps, tile, side, AGAIN: tl.constexpr):
    """Numerator, inverse divisor and mask factor of a tile.

    What is read again, from the nearest cache, is marked so; or the compiler would keep all that was computed from it
    in registers.
    """
    product, divisor, factor = maps
    values = tl.load(product + tile[0], mask=tile[1], other=0, eviction_policy="evict_first" if AGAIN else "")
    inverse = 1 / tl.load(divisor + side[0], mask=side[1], other=1)
    scale = tl.full(inverse.shape, 1.0, tl.float32)
    if factor is not None:
        scale = tl.load(factor + side[0], mask=side[1], other=1)
    return values, inverse, scale


@triton.jit
def _log2(x):
    """By the one instruction that GPUs have for it: `tl.log2` takes twenty, and a branch, for the last bit."""
    return tl.log2(x) if _INTERPRETED else libdevice.fast_log2f(x)


@triton.jit
def sharpened(values, inverse, exponent, RECTIFY: tl.constexpr, SHARPEN: tl.constexpr):
    """The stages before gain and mask. What the caller does not use costs nothing.

    Sharpening is ``a |a|^(tau - 1)``: exact for tau = 1, the sign takes care of itself, and tau times the power is the
    slope. The power is zero for what is dead, which includes whatever a relu would have cut off.

    Returns:
        Similarity, log2 of the magnitude, the power, and the sharpened.
    """
    similarity = values.to(tl.float32) * inverse[:, None]
    log = tl.zeros_like(similarity)
    power = log + 1
    rectified = similarity
    if RECTIFY == "abs":
        rectified = tl.abs(similarity)
    if SHARPEN:
        magnitude = tl.abs(similarity) if RECTIFY == "none" else rectified
        floored = tl.maximum(magnitude, _FLOOR, propagate_nan=tl.PropagateNan.ALL)
        log = _log2(floored)
        power = tl.where(magnitude > _FLOOR, tl.exp2((exponent - 1) * log), 0.0)
        rectified = similarity if RECTIFY == "none" else floored
    elif RECTIFY == "relu":
        rectified = tl.maximum(similarity, 0.0, propagate_nan=tl.PropagateNan.ALL)
    return similarity, log, power, rectified * power


@triton.jit(do_not_specialize=["rows", "parts"])
def moments_of_parts(
    product, divisor, factor, raw_tau, gain, partials, rows, parts, channels, groups, width,
    RECTIFY: tl.constexpr, AFTER: tl.constexpr, TILE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Statistics of every part of a pool."""
    # Last rows first: the cache has them from the kernel before, and afterwards the first rows for the kernel after.
    program = tl.num_programs(0) - 1 - tl.program_id(0)
    where, columns = place_tile(program, parts, groups, width, TILE, COLUMNS)
    tile, side = strip(where, columns, 0, rows, channels, groups, TILE)
    values, inverse, scale = read((product, divisor, factor), tile, side, False)
    exponent, before, _ = parameters(raw_tau, gain, columns, AFTER)
    _, _, _, sharp = sharpened(values, inverse, exponent, RECTIFY, raw_tau is not None)
    count = tl.minimum(rows - where[2], TILE).to(tl.float32)
    mean, squares = _moments(sharp * scale[:, None] * before, side[1], count)
    at = partials + where[0] * 2 * channels + columns[0]
    tl.store(at, mean, mask=columns[1])
    tl.store(at + channels, squares, mask=columns[1])


@triton.jit
def _moments(u, exists, count):
    """Mean of each channel over so many rows of a tile, and the sum of squared distances from it."""
    mean = tl.sum(u, 0) / count  # what does not exist is zero
    distance = tl.where(exists[:, None], u - mean[None, :], 0.0)
    return mean, tl.sum(distance * distance, 0)


@triton.jit(do_not_specialize=["rows", "parts"])
def moments_of_pools(partials, mean, variance, rows, parts, channels, TILE: tl.constexpr):
    """Statistics of every pool, from those of its parts: Chan's formula, within some parts and across them."""
    PARTS: tl.constexpr = ADDED // NEIGHBOURS
    blocks = tl.cdiv(channels, NEIGHBOURS)
    pool = (tl.program_id(0) // blocks).to(tl.int64)
    channel = tl.program_id(0) % blocks * NEIGHBOURS + tl.arange(0, NEIGHBOURS)
    exists = channel < channels
    centre = tl.zeros((NEIGHBOURS,), tl.float32)
    total = tl.zeros((NEIGHBOURS,), tl.float32)
    seen = 0.0
    for first in range(0, parts, PARTS):
        part = first + tl.arange(0, PARTS).to(tl.int64)
        size = tl.minimum(tl.maximum(rows - part * TILE, 0), TILE).to(tl.float32)[:, None]
        at = partials + (pool * parts + part)[:, None] * 2 * channels + channel[None, :]
        mask = (part < parts)[:, None] & exists[None, :]
        means = tl.load(at, mask=mask, other=0)
        squares = tl.load(at + channels, mask=mask, other=0)
        count = tl.sum(size)
        middle = tl.sum(size * means, 0) / count
        means -= middle[None, :]
        middle -= centre
        total += tl.sum(squares + size * means * means, 0) + middle * middle * (seen * count / (seen + count))
        centre += middle * (count / (seen + count))
        seen += count
    tl.store(mean + pool * channels + channel, centre, mask=exists)
    tl.store(variance + pool * channels + channel, total / rows, mask=exists)


@triton.jit(do_not_specialize=["rows", "parts"])
def finish_tile(
    product, divisor, factor, raw_tau, gain, given_mean, given_variance, y, eps, rows, parts, channels, groups, width,
    RECTIFY: tl.constexpr, AFTER: tl.constexpr, STATISTICS: tl.constexpr, TILE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The output, and the statistics where a tile holds a pool."""
    where, columns = place_tile(tl.program_id(0), parts, groups, width, TILE, COLUMNS)
    tile, side = strip(where, columns, 0, rows, channels, groups, TILE)
    channel, exists = columns
    statistic = where[1] * channels + channel
    mean = tl.zeros((COLUMNS,), tl.float32)
    rate = mean + 1
    values, inverse, scale = read((product, divisor, factor), tile, side, False)
    exponent, before, after = parameters(raw_tau, gain, columns, AFTER)
    if STATISTICS == "parts" or STATISTICS == "given":
        mean = tl.load(given_mean + statistic, mask=exists, other=0)
        rate = tl.rsqrt(tl.load(given_variance + statistic, mask=exists, other=1) + eps)
    _, _, _, sharp = sharpened(values, inverse, exponent, RECTIFY, raw_tau is not None)
    u = sharp * scale[:, None] * before
    if STATISTICS == "own":
        mean, squares = _moments(u, side[1], rows)
        rate = tl.rsqrt(squares / rows + eps)
        tl.store(given_mean + statistic, mean, mask=exists)
        tl.store(given_variance + statistic, squares / rows, mask=exists)
    tl.store(y + tile[0], (u - mean[None, :]) * (rate[None, :] * after), mask=tile[1])
