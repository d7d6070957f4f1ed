"""The unit of a gradient as float16: a power of two that brings its largest value to the top of the range."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 8192
_PROGRAMS: tl.constexpr = tl.constexpr(1024)  # that look for the largest, at most


def largest(gradient: Tensor, precision: str) -> Tensor | None:
    """Partial maxima of a gradient's magnitude, for `gradient_unit`; None where no unit is needed."""
    blocks = triton.cdiv(gradient.numel(), _BLOCK)
    if precision != "half" or not blocks:
        return None
    maxima = gradient.new_empty(min(blocks, _PROGRAMS.value))
    _largest[(maxima.numel(),)](gradient, maxima, gradient.numel(), triton.cdiv(blocks, maxima.numel()), BLOCK=_BLOCK)
    return maxima


@triton.jit
def _largest(gradient, maxima, size, steps, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * steps * BLOCK
    most = tl.zeros((BLOCK,), tl.float32)
    for step in range(steps):
        at = start + step * BLOCK + tl.arange(0, BLOCK)
        most = tl.maximum(most, tl.abs(tl.load(gradient + at, mask=at < size, other=0)))
    tl.store(maxima + tl.program_id(0), tl.max(most))


@triton.jit
def gradient_unit(maxima, count):
    """From partial maxima; 1 without any."""
    unit = 1.0
    if maxima is not None:
        at = tl.arange(0, _PROGRAMS)
        most = tl.max(tl.load(maxima + at, mask=at < count, other=0))
        exponent = ((most.to(tl.int32, bitcast=True) >> 23) & 0xFF) - 127
        # To 2^14. Neither zero nor infinity has an exponent to speak of; both stay what they are.
        exponent = tl.minimum(tl.maximum(14 - exponent, -100), 100)
        unit = ((exponent + 127) << 23).to(tl.float32, bitcast=True)
    return unit
