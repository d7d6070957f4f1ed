"""The robust functions of `xcnorm.functional.robust`, for use inside kernels."""

from __future__ import annotations

import triton
import triton.language as tl

_HALF_LOG2E: tl.constexpr = tl.constexpr(
    -0.5 * 1.4426950408889634
)  # exp(-t^2 / 2) as a power of 2, which is what GPUs have


@triton.jit
def standardise(values, centre, rate, EXACT: tl.constexpr):
    """``(values - centre) * rate``, row by row; in one instruction where the product rounds more than that costs."""
    if EXACT:
        t = (values.to(tl.float32) - centre[:, None]) * rate[:, None]
    else:
        t = values.to(tl.float32) * rate[:, None] - (centre * rate)[:, None]
    return t


@triton.jit
def bend(t, ROBUST: tl.constexpr, EXACT: tl.constexpr):
    """``h(t)`` and ``h'(t)``; what the caller does not use costs nothing."""
    square = t * t
    if ROBUST == "none":
        h = t
        slope = tl.full(t.shape, 1.0, tl.float32)
    elif ROBUST == "welsch":
        bell = tl.exp2(square * _HALF_LOG2E)
        h = _one_minus(bell, square, EXACT)
        slope = t * bell
    elif ROBUST == "welsch_signed":
        bell = tl.exp2(square * _HALF_LOG2E)
        h = _one_minus(bell, square, EXACT)
        h = tl.where(t < 0, -h, h)
        slope = tl.abs(t) * bell
    elif ROBUST == "welsch_influence":
        bell = tl.exp2(square * _HALF_LOG2E)
        h = t * bell
        slope = bell - square * bell
    elif ROBUST == "huber":
        h = tl.minimum(tl.maximum(t, -1.0), 1.0)
        slope = tl.where(square <= 1, 1.0, 0.0)
    elif ROBUST == "cauchy":
        fraction = 1 / (1 + square)
        h = t * fraction
        slope = (1 - square) * fraction * fraction
    else:
        tl.static_assert(ROBUST == "tukey", "unknown robust function")
        rest = tl.where(square <= 1, 1 - square, 0.0)
        h = t * rest * rest
        slope = rest * (1 - 5 * square)
    return h, slope


@triton.jit
def _one_minus(bell, square, EXACT: tl.constexpr):
    """``1 - exp(-square / 2)``, precise where that is small: there training starts, with c much larger than z."""
    if EXACT:
        y = 0.5 * square
        near = y < 0.1
        series = y * (1 - y / 2 * (1 - y / 3 * (1 - y / 4 * (1 - y / 5))))
    else:  # to the 11 bits that are left of it in a product, in as few instructions as there are
        near = square < 0.03125
        series = square * (0.5 - 0.125 * square)
    return tl.where(near, series, 1 - bell)
