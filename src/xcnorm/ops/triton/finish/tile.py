"""A tile: where it lies, what is read, and the stages of every value up to gain and mask."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice

from xcnorm.functional.stages import SHARPEN_FLOOR
from xcnorm.ops.finish import TAU_MINIMUM

_INTERPRETED: tl.constexpr = tl.constexpr(triton.knobs.runtime.interpret)
_FLOOR: tl.constexpr = tl.constexpr(SHARPEN_FLOOR)
_TAU_MINIMUM: tl.constexpr = tl.constexpr(TAU_MINIMUM)


@triton.jit
def place(program, parts, groups, width, TILE: tl.constexpr, COLUMNS: tl.constexpr):
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
def strip(where, head, first, rows, channels, groups, STRIP: tl.constexpr):
    """Some rows of a tile: offsets and which of them exist, of values and of positions."""
    _, pool, start, group, _ = where
    row = tl.arange(0, STRIP)
    inside = row < tl.minimum(rows - start - first, STRIP).to(tl.int32)
    base = pool * rows + start + first
    values = base * channels + row[:, None] * channels + head[0][None, :]
    return (values, inside[:, None] & head[1][None, :]), (base * groups + row * groups + group, inside)


@triton.jit
def parameters(tau, gain, head, EACH: tl.constexpr, AFTER: tl.constexpr):
    """Exponent, gain before the channel norm and gain after it, to multiply tiles with; one where there is none."""
    one = tl.full((1, 1), 1.0, tl.float32)
    exponent = one
    amplitude = one
    if EACH:
        exponent = _exponent(tl.load(tau + head[0], mask=head[1], other=1)[None, :])
    elif tau is not None:
        exponent = _exponent(one * tl.load(tau))
    if gain is not None:
        amplitude = tl.load(gain + head[0], mask=head[1], other=1)[None, :]
    before = one if AFTER else amplitude
    after = amplitude if AFTER else one
    return exponent, before, after


@triton.jit
def _exponent(raw):
    """As `xcnorm.ops.finish.exponent`."""
    return tl.where(raw > 20, raw, tl.log(1 + tl.exp(raw))) + _TAU_MINIMUM


@triton.jit
def read(maps, tile, side, AGAIN: tl.constexpr):
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
def read_gradient(dy, strides, where, head, first, mask, AGAIN: tl.constexpr):
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
def respond(values, inverse, exponent, RECTIFY: tl.constexpr, SHARPEN: tl.constexpr):
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
