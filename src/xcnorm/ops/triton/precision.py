"""The precision of a matrix product.

Torch's switch for TF32 asks for factors of 11 significant bits. float16 has as many, runs twice as fast and, unlike
TF32, along either axis of a tile; only its range is narrow. Filters and bent patches have a range known beforehand, and
gradients are brought to one by the largest of them: each with a power of two, taken out again afterwards, exactly.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

PATCH_UNIT: tl.constexpr = tl.constexpr(2.0**14)
"""What bent patches, at most 1, are multiplied by as float16."""

FILTER_UNIT: tl.constexpr = tl.constexpr(2.0**10)
"""The same for filters of unit norm."""

_BLOCK = 8192
PROGRAMS = 1024
"""That look for the largest gradient, at most."""


@triton.jit
def operand(values, dtype, unit, PRECISION: tl.constexpr):
    """A factor of a product as the matrix units take it, as float16 in a unit of its own."""
    if PRECISION == "half":
        factor = (values * unit).to(tl.float16)
    elif PRECISION == "tf32":
        # The matrix units cut float32 off after 10 bits; rounding first halves the error and leaves no bias.
        bits = values.to(tl.float32).to(tl.int32, bitcast=True)
        factor = ((bits + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
    else:
        factor = values.to(dtype)
    return factor


def largest(gradient: Tensor, precision: str) -> Tensor:
    """Partial maxima of a gradient's magnitude, for `gradient_unit`; anything where no unit is needed."""
    blocks = triton.cdiv(gradient.numel(), _BLOCK)
    if precision != "half" or not blocks:
        return gradient
    maxima = gradient.new_empty(min(blocks, PROGRAMS))
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
def gradient_unit(maxima, count, PRECISION: tl.constexpr, PROGRAMS: tl.constexpr):
    """The power of two that brings the largest gradient to the top of float16's range; 1 where none is needed."""
    unit = 1.0
    if PRECISION == "half":
        at = tl.arange(0, PROGRAMS)
        most = tl.max(tl.load(maxima + at, mask=at < count, other=0))
        exponent = ((most.to(tl.int32, bitcast=True) >> 23) & 0xFF) - 127
        # To 2^14. Neither zero nor infinity has an exponent to speak of; both stay what they are.
        exponent = tl.minimum(tl.maximum(14 - exponent, -100), 100)
        unit = ((exponent + 127) << 23).to(tl.float32, bitcast=True)
    return unit
