"""Filters on their way into the product, centred and of unit norm, and their gradient on its way out."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from xcnorm.ops.triton.geometry import kernel
from xcnorm.ops.triton.precision import FILTER_UNIT, operand

_TILE = 8192  # values of a filter that a program holds at once
_FLOOR: tl.constexpr = tl.constexpr(1e-16)  # as in `xcnorm.functional.normalise_weight`


def normalise_filters(weight: Tensor, dtype: torch.dtype, precision: str, *, write: bool) -> tuple[Tensor, Tensor]:
    """Centre each filter of ``(C_out, C_in / groups, *kernel)`` and scale it to unit norm.

    Args:
        weight: The filters.
        dtype: Of the patches they are for.
        precision: Of the product with them.
        write: Whether to write them; a dense layer's weight is larger than its input, so there mean and norm are
            better applied along the way.

    Returns:
        The filters ``(C_out, taps, C_in / groups)`` in their unit, or an empty tensor; and the mean and inverse norm of
        each, ``(2, C_out)``.
    """
    filters, channels = weight.shape[:2]
    taps = weight[0, 0].numel()
    result = weight.new_empty(
        (filters, taps, channels) if write else 0, dtype=torch.float16 if precision == "half" else dtype
    )
    moments = weight.new_empty((2, filters), dtype=torch.float32)
    _normalise[(filters,)](
        weight, result, moments, filters, channels, taps, *_strides(weight), PRECISION=precision, WRITE=write,
        **_tile(channels, taps),
    )  # fmt: skip
    return result, moments


def filters_backward(partials: Tensor, weight: Tensor, moments: Tensor) -> Tensor:
    """Gradient of the raw filters from partial sums ``(parts, C_out, taps, C_in / groups)`` for the normalised ones."""
    gradient = torch.empty_like(weight, dtype=torch.float32)
    filters, channels = weight.shape[:2]
    taps = weight[0, 0].numel()
    _backward[(filters,)](
        partials, weight, moments, gradient, partials.shape[0], filters, channels, taps, *_strides(weight),
        **_tile(channels, taps),
    )  # fmt: skip
    return gradient


def _strides(weight: Tensor) -> tuple[int, int]:
    """Of channel and tap, in filters that lie channel by channel or, channels last, tap by tap."""
    if weight.is_contiguous():
        return weight[0, 0].numel(), 1
    assert weight.is_contiguous(memory_format=torch.channels_last)
    return 1, weight.shape[1]


def _tile(channels: int, taps: int) -> dict[str, int]:
    """A program walks through a filter by channels, with all its taps."""
    wide = triton.next_power_of_2(taps)
    tall = max(1, min(triton.next_power_of_2(channels), _TILE // wide))
    return {"CHANNELS": tall, "TAPS": wide, "num_warps": max(1, min(16, tall * wide // 512))}


@triton.jit
def _normalise(
    weight, result, moments, filters, channels, taps, channel_stride, tap_stride,
    PRECISION: tl.constexpr, WRITE: tl.constexpr, CHANNELS: tl.constexpr, TAPS: tl.constexpr,
):  # fmt: skip
    filter = tl.program_id(0)
    size = channels * taps
    base = filter.to(tl.int64) * size
    total = tl.zeros((CHANNELS, TAPS), tl.float32)
    for start in range(0, channels, CHANNELS):
        raw, _, there = _places(start, channels, taps, channel_stride, tap_stride, CHANNELS, TAPS)
        total += tl.load(weight + base + raw, mask=there, other=0).to(tl.float32)
    mean = tl.sum(total) / size
    squares = tl.zeros((CHANNELS, TAPS), tl.float32)
    for start in range(0, channels, CHANNELS):
        raw, _, there = _places(start, channels, taps, channel_stride, tap_stride, CHANNELS, TAPS)
        distance = tl.load(weight + base + raw, mask=there, other=0).to(tl.float32) - mean
        squares += tl.where(there, distance * distance, 0)
    scale = 1 / tl.sqrt(tl.sum(squares) + _FLOOR)
    if WRITE:
        for start in range(0, channels, CHANNELS):
            raw, by_tap, there = _places(start, channels, taps, channel_stride, tap_stride, CHANNELS, TAPS)
            unit = (tl.load(weight + base + raw, mask=there, other=0).to(tl.float32) - mean) * scale
            tl.store(result + base + by_tap, operand(unit, result.dtype.element_ty, FILTER_UNIT, PRECISION), mask=there)
    tl.store(moments + filter, mean)
    tl.store(moments + filters + filter, scale)


@kernel
def _backward(
    partials, weight, moments, gradient, parts, filters, channels, taps, channel_stride, tap_stride,
    CHANNELS: tl.constexpr, TAPS: tl.constexpr,
):  # fmt: skip
    """The gradient of ``(w - mean) / norm``: what is left of it across the constant and across the filter itself."""
    filter = tl.program_id(0).to(tl.int64)
    size = channels * taps
    base = filter * size
    mean = tl.load(moments + filter)
    scale = tl.load(moments + filters + filter)
    along_one = tl.zeros((CHANNELS, TAPS), tl.float32)
    along_filter = tl.zeros((CHANNELS, TAPS), tl.float32)
    for start in range(0, channels, CHANNELS):
        raw, by_tap, there = _places(start, channels, taps, channel_stride, tap_stride, CHANNELS, TAPS)
        total = tl.zeros((CHANNELS, TAPS), tl.float32)
        for part in tl.range(parts, loop_unroll_factor=4):
            part_base = tl.cast(part, tl.int64) * filters * size + base
            total += tl.load(partials + part_base + by_tap, mask=there, other=0).to(tl.float32)
        unit = (tl.load(weight + base + raw, mask=there, other=0).to(tl.float32) - mean) * scale
        along_one += total
        along_filter += total * unit
        tl.store(gradient + base + raw, total, mask=there)
    constant = tl.sum(along_one) / size
    cosine = tl.sum(along_filter)
    tl.debug_barrier()  # threads read below what others wrote above
    for start in range(0, channels, CHANNELS):
        raw, _, there = _places(start, channels, taps, channel_stride, tap_stride, CHANNELS, TAPS)
        unit = (tl.load(weight + base + raw, mask=there, other=0).to(tl.float32) - mean) * scale
        total = tl.load(gradient + base + raw, mask=there, other=0)
        tl.store(gradient + base + raw, (total - constant - unit * cosine) * scale, mask=there)


@triton.jit
def _places(start, channels, taps, channel_stride, tap_stride, CHANNELS: tl.constexpr, TAPS: tl.constexpr):
    """Where a tile of a filter lies in the weight, where it lies tap by tap, and which of it exists."""
    channel = (start + tl.arange(0, CHANNELS))[:, None]
    tap = tl.arange(0, TAPS)[None, :]
    raw = channel * channel_stride + tap * tap_stride
    return raw, tap * channels + channel, (channel < channels) & (tap < taps)
