"""What follows the correlation: divide, rectify, sharpen, gain, mask factor, channel norm; and the gradient of it all.

Maps are seen as ``(pools, rows, channels)``. A pool is what the channel norm takes its statistics from: the positions
of one image, or those of all images. A program has one tile, some rows of a pool by a few neighbouring channels of one
group, all of it in registers: its loads are under way together, and a pool that fits is read from memory once. What is
summed across programs is written down apart and added in a fixed order, the same in every run.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

_INTERPRETED: tl.constexpr = tl.constexpr(triton.knobs.runtime.interpret)
_FLOOR: tl.constexpr = tl.constexpr(1e-6)  # as in `xcnorm.functional.sharpen`
_LN2: tl.constexpr = tl.constexpr(0.6931471805599453)

_POOL = 32768  # bytes of a map in a tile that holds a pool, at most
_PART = 8192  # values of a tile that does not, at most; twice as many where it is worked on in strips
_STRIP = 2048  # values of a strip at most, with four warps
_SECTOR = 32  # bytes of a tile's row at least: memory is read in such portions
_WIDE = 64  # channels of a tile at most
_LOW = 64  # rows of a tile at least, unless it holds a pool: its sums take little room beside it
_PROGRAMS = 512  # at least, as far as these bounds allow
_REGISTERS = 128  # of a thread at most: room for two programs of eight warps on a multiprocessor
_ADDED: tl.constexpr = tl.constexpr(4096)  # values that a program adds up at a time
_NEIGHBOURS: tl.constexpr = tl.constexpr(8)  # channels of a program that adds up, or merges: a sector


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
        tau: Exponent of the sharpening, one or one per channel, float32; None without sharpening.
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
    plan = _plan(v, norm, statistics, v.element_size(), _PART)
    options = {"RECTIFY": rectify, "EACH": _each(tau), "AFTER": gain_after, **plan.tiling}
    if plan.statistics == "parts":
        partials = v.new_empty((plan.pools, plan.parts, 2, plan.channels), dtype=torch.float32)
        _moments_of_parts[plan.grid](v, norm, factor, tau, gain, partials, *plan.sizes, **options)
        _moments_of_pools[(plan.pools * triton.cdiv(plan.channels, _NEIGHBOURS.value),)](
            partials, mean, variance, plan.rows, plan.parts, plan.channels, TILE=plan.tile, num_warps=8
        )
    _finish[plan.grid](
        v, norm, factor, tau, gain, mean, variance, y, eps, *plan.sizes, STATISTICS=plan.statistics, **options
    )
    return y, mean, variance


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
    plan = _plan(v, norm, statistics, max(v.element_size(), dy.element_size()), 2 * _PART)
    options = {"RECTIFY": rectify, "EACH": _each(tau), "AFTER": gain_after, "STRIP": plan.strip, **plan.tiling}
    # Read as it lies; copied only where images are pooled whose rows are not evenly spaced.
    dy = dy.reshape(plan.pools, plan.rows, plan.channels)
    sums = None
    if plan.statistics == "parts":
        partials = v.new_empty((plan.pools, plan.parts, 2, plan.channels), dtype=torch.float32)
        sums = v.new_empty((plan.pools, 2, plan.channels), dtype=torch.float32)
        _sums_of_parts[plan.grid](dy, *dy.stride(), v, norm, factor, tau, gain, mean, partials, *plan.sizes, **options)
        blocks = triton.cdiv(2 * plan.channels, _NEIGHBOURS.value)
        _sums_of_pools[(plan.pools * blocks,)](partials, sums, plan.parts, 2 * plan.channels, num_warps=8)
    dv = torch.empty_like(v)
    dnorms = norm.new_empty((plan.blocks, *norm.shape))
    dfactors = None if factor is None else torch.empty_like(dnorms)
    dtaus = None if tau is None else tau.new_empty((plan.walks, plan.channels) if _each(tau) else plan.grid)
    dgains = None if gain is None else gain.new_empty((plan.walks, plan.channels))
    _backward[plan.grid](
        dy, *dy.stride(), v, norm, factor, tau, gain, mean, variance, sums, dv, dnorms, dfactors, dtaus, dgains, eps,
        norm.numel(), *plan.sizes, STATISTICS=plan.statistics, **options,
    )  # fmt: skip
    dtau, dgain = (None if t is None else torch.empty_like(t) for t in (tau, gain))
    several = plan.blocks > 1
    dnorm, dfactor = (None if t is None else t.new_empty(norm.shape) if several else t[0] for t in (dnorms, dfactors))
    assert dnorm is not None
    if several or dtau is not None or dgain is not None:
        deep = triton.next_power_of_2(plan.blocks)
        programs = triton.cdiv(plan.channels, _NEIGHBOURS.value) + 1
        programs += triton.cdiv(norm.numel(), _ADDED.value // deep) if several else 0
        _collect[(programs,)](
            dnorms, dnorm, dfactors, dfactor, dtaus, dtau, dgains, dgain,
            plan.walks, plan.channels, plan.grid[0], plan.blocks, norm.numel(),
            EACH=_each(tau), DEEP=deep, num_warps=8,
        )  # fmt: skip
    return dv, dnorm, dfactor, dtau, dgain


def _each(tau: Tensor | None) -> bool:
    """Whether every channel has an exponent of its own."""
    return tau is not None and tau.numel() > 1


class _Plan(NamedTuple):
    """How the work falls to programs.

    Attributes:
        pools: That have statistics of their own.
        rows: Of a pool.
        channels: Of a row.
        groups: Of channels.
        tile: Rows of a tile.
        columns: Channels of a tile.
        statistics: Whence: each program's ``"own"`` tile, tiles that are ``"parts"``, ``"given"`` or ``"none"``.
    """

    pools: int
    rows: int
    channels: int
    groups: int
    tile: int
    columns: int
    statistics: str

    @property
    def parts(self) -> int:
        """Tiles that a pool is as high as."""
        return triton.cdiv(self.rows, self.tile)

    @property
    def walks(self) -> int:
        """Tiles that all pools are as high as."""
        return self.pools * self.parts

    @property
    def blocks(self) -> int:
        """Tiles that a group is as wide as."""
        return triton.cdiv(self.channels // self.groups, self.columns)

    @property
    def grid(self) -> tuple[int]:
        """Neighbouring programs have the same rows: they share lines of the cache."""
        return (self.walks * self.groups * self.blocks,)

    @property
    def sizes(self) -> tuple[int, ...]:
        """What every kernel finds its place by."""
        return self.rows, self.parts, self.channels, self.groups, self.channels // self.groups

    @property
    def warps(self) -> int:
        """Of a program."""
        return 8 if self.tile * self.columns > 4096 else 4

    @property
    def tiling(self) -> dict[str, int]:
        """Constants of every kernel."""
        return {"TILE": self.tile, "COLUMNS": self.columns, "num_warps": self.warps, "maxnreg": _REGISTERS}

    @property
    def strip(self) -> int:
        """Rows of a tile that the kernels of the gradient compute with at a time."""
        return min(self.tile, max(1, _STRIP * self.warps // 4 // self.columns))


def _plan(v: Tensor, norm: Tensor, statistics: str, size: int, part: int) -> _Plan:
    """Share the work out, for maps whose values have so many bytes, in parts of so many values at most."""
    images, positions, channels = v.shape
    groups = norm.shape[2]
    pools, rows = (images, positions) if statistics == "instance" else (1, images * positions)
    tile = triton.next_power_of_2(rows)
    columns = min(_WIDE, triton.next_power_of_2(channels // groups))
    narrow = _SECTOR // size
    measured = statistics in ("batch", "instance")
    if measured and tile * _SECTOR <= _POOL:
        plan = _Plan(pools, rows, channels, groups, tile, min(columns, _POOL // size // tile), "own")
        while plan.columns > narrow and plan.grid[0] < _PROGRAMS:
            plan = plan._replace(columns=plan.columns // 2)
        return plan
    tile = min(tile, part // max(columns, narrow))
    plan = _Plan(pools, rows, channels, groups, tile, columns, "parts" if measured else statistics)
    while plan.tile > _LOW and plan.grid[0] < _PROGRAMS:
        plan = plan._replace(tile=plan.tile // 2)
    return plan


@triton.jit
def _place(program, parts, groups, width, TILE: tl.constexpr, COLUMNS: tl.constexpr):
    """Where a program works.

    Returns:
        Its walk, the walk's pool, the tile's first row there, its group and its block of the group's channels; these
        channels and which of them exist.
    """
    blocks = tl.cdiv(width, COLUMNS)
    walk = (program // (blocks * groups)).to(tl.int64)
    group = program // blocks % groups
    lane = program % blocks * COLUMNS + tl.arange(0, COLUMNS)
    return (walk, walk // parts, walk % parts * TILE, group, program % blocks), (group * width + lane, lane < width)


@triton.jit
def _strip(where, head, first, rows, channels, groups, STRIP: tl.constexpr):
    """Some rows of a tile: offsets and which of them exist, of values and of positions."""
    _, pool, start, group, _ = where
    row = tl.arange(0, STRIP)
    inside = row < tl.minimum(rows - start - first, STRIP).to(tl.int32)
    base = pool * rows + start + first
    values = base * channels + row[:, None] * channels + head[0][None, :]
    return (values, inside[:, None] & head[1][None, :]), (base * groups + row * groups + group, inside)


@triton.jit
def _parameters(tau, gain, head, EACH: tl.constexpr, AFTER: tl.constexpr):
    """Exponent, gain before the channel norm and gain after it, to multiply tiles with; one where there is none."""
    one = tl.full((1, 1), 1.0, tl.float32)
    exponent = one
    amplitude = one
    if EACH:
        exponent = tl.load(tau + head[0], mask=head[1], other=1)[None, :]
    elif tau is not None:
        exponent = one * tl.load(tau)
    if gain is not None:
        amplitude = tl.load(gain + head[0], mask=head[1], other=1)[None, :]
    before = one if AFTER else amplitude
    after = amplitude if AFTER else one
    return exponent, before, after


@triton.jit
def _read(maps, tile, side, AGAIN: tl.constexpr):
    """Numerator, inverse norm and mask factor of a tile.

    What is read again, from the nearest cache, is marked so; or the compiler would keep all that was computed from it
    in registers.
    """
    v, norm, factor = maps
    values = tl.load(v + tile[0], mask=tile[1], other=0, eviction_policy="evict_first" if AGAIN else "")
    inverse = 1 / tl.load(norm + side[0], mask=side[1], other=1)
    scale = tl.full(inverse.shape, 1.0, tl.float32)
    if factor is not None:
        scale = tl.load(factor + side[0], mask=side[1], other=1)
    return values, inverse, scale


@triton.jit
def _read_gradient(dy, strides, where, head, first, mask, AGAIN: tl.constexpr):
    """The output's gradient on the same rows, wherever it lies."""
    _, pool, start, _, _ = where
    row = tl.arange(0, mask.shape[0]).to(tl.int64)[:, None]
    column = head[0].to(tl.int64)[None, :]
    offset = pool * strides[0] + (start + first) * strides[1] + row * strides[1] + column * strides[2]
    return tl.load(dy + offset, mask=mask, other=0, eviction_policy="evict_first" if AGAIN else "").to(tl.float32)


@triton.jit
def _log2(x):
    """By the one instruction that GPUs have for it: `tl.log2` takes twenty, and a branch, for the last bit."""
    return tl.log2(x) if _INTERPRETED else libdevice.fast_log2f(x)


@triton.jit
def _respond(values, inverse, exponent, RECTIFY: tl.constexpr, SHARPEN: tl.constexpr):
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


@triton.jit
def _moments(u, inside, count):
    """Mean of each channel over so many rows of a tile, and the sum of squared distances from it."""
    mean = tl.sum(u, 0) / count  # it is zero outside
    distance = tl.where(inside[:, None], u - mean[None, :], 0.0)
    return mean, tl.sum(distance * distance, 0)


@triton.jit(do_not_specialize=["rows", "parts"])
def _moments_of_parts(
    v, norm, factor, tau, gain, partials, rows, parts, channels, groups, width,
    RECTIFY: tl.constexpr, EACH: tl.constexpr, AFTER: tl.constexpr, TILE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Statistics of every part of a pool."""
    # Last rows first: the cache has them from the kernel before, and afterwards the first rows for the kernel after.
    program = tl.num_programs(0) - 1 - tl.program_id(0)
    where, head = _place(program, parts, groups, width, TILE, COLUMNS)
    tile, side = _strip(where, head, 0, rows, channels, groups, TILE)
    values, inverse, scale = _read((v, norm, factor), tile, side, False)
    exponent, before, _ = _parameters(tau, gain, head, EACH, AFTER)
    _, _, _, sharp = _respond(values, inverse, exponent, RECTIFY, tau is not None)
    count = tl.minimum(rows - where[2], TILE).to(tl.float32)
    mean, spread = _moments(sharp * scale[:, None] * before, side[1], count)
    at = partials + where[0] * 2 * channels + head[0]
    tl.store(at, mean, mask=head[1])
    tl.store(at + channels, spread, mask=head[1])


@triton.jit(do_not_specialize=["rows", "parts"])
def _moments_of_pools(partials, mean, variance, rows, parts, channels, TILE: tl.constexpr):
    """Statistics of every pool, from those of its parts: Chan's formula, within some parts and across them."""
    PARTS: tl.constexpr = _ADDED // _NEIGHBOURS
    blocks = tl.cdiv(channels, _NEIGHBOURS)
    pool = (tl.program_id(0) // blocks).to(tl.int64)
    channel = tl.program_id(0) % blocks * _NEIGHBOURS + tl.arange(0, _NEIGHBOURS)
    there = channel < channels
    centre = tl.zeros((_NEIGHBOURS,), tl.float32)
    spread = tl.zeros((_NEIGHBOURS,), tl.float32)
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


@triton.jit(do_not_specialize=["rows", "parts"])
def _finish(
    v, norm, factor, tau, gain, mean, variance, y, eps, rows, parts, channels, groups, width,
    RECTIFY: tl.constexpr, EACH: tl.constexpr, AFTER: tl.constexpr, STATISTICS: tl.constexpr,
    TILE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The output, and the statistics where a tile holds a pool."""
    where, head = _place(tl.program_id(0), parts, groups, width, TILE, COLUMNS)
    tile, side = _strip(where, head, 0, rows, channels, groups, TILE)
    channel, there = head
    statistic = where[1] * channels + channel
    centre = tl.zeros((COLUMNS,), tl.float32)
    rate = centre + 1
    values, inverse, scale = _read((v, norm, factor), tile, side, False)
    exponent, before, after = _parameters(tau, gain, head, EACH, AFTER)
    if STATISTICS == "parts" or STATISTICS == "given":
        centre = tl.load(mean + statistic, mask=there, other=0)
        rate = tl.rsqrt(tl.load(variance + statistic, mask=there, other=1) + eps)
    _, _, _, sharp = _respond(values, inverse, exponent, RECTIFY, tau is not None)
    u = sharp * scale[:, None] * before
    if STATISTICS == "own":
        centre, spread = _moments(u, side[1], rows)
        rate = tl.rsqrt(spread / rows + eps)
        tl.store(mean + statistic, centre, mask=there)
        tl.store(variance + statistic, spread / rows, mask=there)
    tl.store(y + tile[0], (u - centre[None, :]) * (rate[None, :] * after), mask=tile[1])


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
        tile, side = _strip(where, head, first, rows, channels, groups, DOUBLE)
        gradient = _read_gradient(dy, strides, where, head, first, tile[1], False)
        values, inverse, scale = _read(maps, tile, side, False)
        _, _, _, sharp = _respond(values, inverse, exponent, RECTIFY, SHARPEN)
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
    program = tl.num_programs(0) - 1 - tl.program_id(0)  # as in `_moments_of_parts`
    where, head = _place(program, parts, groups, width, TILE, COLUMNS)
    exponent, before, _ = _parameters(tau, gain, head, EACH, AFTER)
    centre = tl.load(mean + where[1] * channels + head[0], mask=head[1], other=0)
    total, along = _sums(
        dy, (dy_pool, dy_row, dy_channel), (v, norm, factor), where, head, exponent, before, centre,
        rows, channels, groups, RECTIFY, tau is not None, STRIP, TILE, COLUMNS,
    )  # fmt: skip
    at = partials + where[0] * 2 * channels + head[0]
    tl.store(at, total, mask=head[1])
    tl.store(at + channels, along, mask=head[1])


@triton.jit(do_not_specialize=["terms"])
def _sums_of_pools(partials, sums, terms, count):
    """The same of every pool, from those of its many parts."""
    blocks = tl.cdiv(count, _NEIGHBOURS)
    pool = (tl.program_id(0) // blocks).to(tl.int64)
    block = tl.program_id(0) % blocks
    _add(partials + pool * terms * count, sums + pool * count, terms, count, block, _ADDED // _NEIGHBOURS)


@triton.jit
def _add(partials, sums, terms, count, block, DEEP: tl.constexpr):
    """Add up ``(terms, count)``, for one block of columns."""
    WIDE: tl.constexpr = _ADDED // DEEP
    column = block.to(tl.int64) * WIDE + tl.arange(0, WIDE)
    there = (column < count)[None, :]
    total = tl.zeros((DEEP, WIDE), tl.float32)
    for first in range(0, terms, DEEP):
        term = first + tl.arange(0, DEEP)[:, None].to(tl.int64)
        total += tl.load(partials + term * count + column[None, :], mask=(term < terms) & there, other=0)
    tl.store(sums + column, tl.sum(total, 0), mask=column < count)


@triton.jit(do_not_specialize=["rows", "parts", "places"])
def _backward(
    dy, dy_pool, dy_row, dy_channel, v, norm, factor, tau, gain, mean, variance, sums,
    dv, dnorms, dfactors, dtaus, dgains, eps, places, rows, parts, channels, groups, width,
    RECTIFY: tl.constexpr, EACH: tl.constexpr, AFTER: tl.constexpr, STATISTICS: tl.constexpr, STRIP: tl.constexpr,
    TILE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """All gradients: of norm and factor by blocks of channels, of the parameters by walks."""
    where, head = _place(tl.program_id(0), parts, groups, width, TILE, COLUMNS)
    walk, pool, _, _, block = where
    channel, there = head
    statistic = pool * channels + channel
    maps, strides = (v, norm, factor), (dy_pool, dy_row, dy_channel)
    exponent, before, after = _parameters(tau, gain, head, EACH, AFTER)
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
        tile, side = _strip(where, head, first, rows, channels, groups, STRIP)
        gradient = _read_gradient(dy, strides, where, head, first, tile[1], AGAIN)
        values, inverse, scale = _read(maps, tile, side, AGAIN)
        similarity, log, power, sharp = _respond(values, inverse, exponent, RECTIFY, tau is not None)
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


@triton.jit(do_not_specialize=["walks", "programs", "places"])
def _collect(
    dnorms, dnorm, dfactors, dfactor, dtaus, dtau, dgains, dgain, walks, channels, programs, blocks, places,
    EACH: tl.constexpr, DEEP: tl.constexpr,
):  # fmt: skip
    """Add up what `_backward` wrote down: by channels, the shared exponent's, and by positions."""
    program = tl.program_id(0)
    wide = tl.cdiv(channels, _NEIGHBOURS)
    if program < wide:
        if dgain is not None:
            _add(dgains, dgain, walks, channels, program, _ADDED // _NEIGHBOURS)
        if EACH:
            _add(dtaus, dtau, walks, channels, program, _ADDED // _NEIGHBOURS)
    elif program == wide:
        if dtau is not None and not EACH:
            _add(dtaus, dtau, programs, 1, program - wide, _ADDED)
    else:
        _add(dnorms, dnorm, blocks, places, program - wide - 1, DEEP)
        if dfactor is not None:
            _add(dfactors, dfactor, blocks, places, program - wide - 1, DEEP)
