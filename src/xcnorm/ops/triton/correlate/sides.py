"""Both sides of the product before it is taken: mean and deviation of every patch, and filters centred, of unit norm.

The channels at a pixel are summed up once; a patch's statistics then come from the few pixels under it. Variances are
sums of squared differences throughout: the difference of two large squares would drown the texture beside an edge.

Maps over positions lie as ``(groups, positions, images)``: rows of a product that share a position read them at once.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from xcnorm.functional.correlation import WEIGHT_FLOOR
from xcnorm.ops.triton.correlate.forward import FILTER_UNIT, as_factor
from xcnorm.ops.triton.geometry import SIDE, Problem, both_orders, both_orders_grid, place, source

_PIXEL_TILE = 4096  # values of pixels that a program holds at once
_FILTER_TILE = 8192  # the same of a filter
_FLOOR: tl.constexpr = tl.constexpr(WEIGHT_FLOOR)


def patch_statistics(
    input: Tensor, p: Problem, *, copy: torch.dtype | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Mean, deviation and norm of every patch of ``(N, H, W, C)``, in float32.

    Args:
        input: ``(N, H, W, C)``.
        p: What is correlated.
        copy: Dtype of a padded copy of the input, to be written along the way; None for none.

    Returns:
        Mean and deviation ``(groups, positions, images)``; partial sums of the deviation, one for each group and 16
        images by 16 positions; the norm of the centred patch, ``(N, positions, groups)``; and the input, or its padded
        copy.
    """
    g = p.geometry
    pixel_mean, pixel_variance = (
        input.new_empty((g.images, g.height, g.width, g.groups), dtype=torch.float32) for _ in range(2)
    )
    mean, deviation = (input.new_empty((g.groups, g.positions, g.images), dtype=torch.float32) for _ in range(2))
    norm = input.new_empty((g.images, g.positions, g.groups), dtype=torch.float32)
    grid = both_orders_grid(g)
    sums = input.new_empty(grid[0] * grid[1], dtype=torch.float32)
    padded = _read_pixels(input, pixel_mean, pixel_variance, p, copy)
    if g.images:
        _patches[grid](
            pixel_mean, pixel_variance, mean, deviation, sums, norm, p.eps, g.alpha**0.5, g, PADDING=p.padding
        )
    return mean, deviation, sums, norm, padded


def padded_copy(input: Tensor, p: Problem, dtype: torch.dtype) -> Tensor:
    """``(N, H, W, C)`` with its padding."""
    return _read_pixels(input, None, None, p, dtype)


def _read_pixels(
    input: Tensor, mean: Tensor | None, variance: Tensor | None, p: Problem, copy: torch.dtype | None
) -> Tensor:
    """Sum up the channels of every pixel, or copy the pixel to its places under the padding, or both at once."""
    g = p.geometry
    frame = _, _, height, width = g.frame(padding=copy is not None)
    padded = input.new_empty((g.images, height, width, g.channels), dtype=copy) if copy else input
    if g.images:
        channels = min(triton.next_power_of_2(g.channels_per_group), 1024)
        block = max(1, _PIXEL_TILE // channels)
        _pixels[(triton.cdiv(g.images * height * width, block), g.groups)](
            input, mean, variance, padded, g, frame, PADDING=p.padding, COPY=copy is not None,
            BLOCK=block, CHANNELS=channels, ONCE=channels >= g.channels_per_group,
        )  # fmt: skip
    return padded


@triton.jit
def _pixels(
    input, pixel_mean, pixel_variance, padded, g, frame, PADDING: tl.constexpr, COPY: tl.constexpr,
    BLOCK: tl.constexpr, CHANNELS: tl.constexpr, ONCE: tl.constexpr,
):  # fmt: skip
    """Mean and variance of a pixel's channels, one group at a time."""
    group = tl.program_id(1)
    top, left, height, width = frame
    image, place_in, y, x, exists = place(tl.program_id(0), g.images, height * width, width, BLOCK, False)
    row_at, row_in = source(y - top, g.height, PADDING)
    col_at, col_in = source(x - left, g.width, PADDING)
    own = exists & (y >= top) & (y < top + g.height) & (x >= left) & (x < left + g.width)
    inside = exists & row_in & col_in
    pixel = (image * g.height + row_at) * g.width + col_at
    values = input + pixel * g.channels + group * g.channels_per_group
    copies = padded + (image * height * width + place_in) * g.channels + group * g.channels_per_group
    channel = tl.arange(0, CHANNELS)
    if ONCE:
        used = (channel < g.channels_per_group)[None, :]
        raw = tl.load(values[:, None] + channel[None, :], mask=inside[:, None] & used, other=0)
        if COPY:
            tl.store(copies[:, None] + channel[None, :], raw, mask=exists[:, None] & used)
        tile = raw.to(tl.float32)
        mean = tl.sum(tile, 1) / g.channels_per_group
        distance = tl.where(used, tile - mean[:, None], 0)
        squares = tl.sum(distance * distance, 1)
    else:
        total = tl.zeros((BLOCK, CHANNELS), tl.float32)
        for start in range(0, g.channels_per_group, CHANNELS):
            used = (start + channel < g.channels_per_group)[None, :]
            raw = tl.load(values[:, None] + (start + channel)[None, :], mask=inside[:, None] & used, other=0)
            if COPY:
                tl.store(copies[:, None] + (start + channel)[None, :], raw, mask=exists[:, None] & used)
            total += raw.to(tl.float32)
        mean = tl.sum(total, 1) / g.channels_per_group
        total = tl.zeros((BLOCK, CHANNELS), tl.float32)
        if pixel_mean is not None:
            for start in range(0, g.channels_per_group, CHANNELS):
                used = (start + channel < g.channels_per_group)[None, :]
                raw = tl.load(values[:, None] + (start + channel)[None, :], mask=inside[:, None] & used, other=0)
                distance = tl.where(used, raw.to(tl.float32) - mean[:, None], 0)
                total += distance * distance
        squares = tl.sum(total, 1)
    if pixel_mean is not None:
        tl.store(pixel_mean + pixel * g.groups + group, mean, mask=own)
        tl.store(pixel_variance + pixel * g.groups + group, squares / g.channels_per_group, mask=own)


@triton.jit
def _patches(
    pixel_mean, pixel_variance, patch_mean, patch_deviation, sums, norm, eps, root_alpha, g, PADDING: tl.constexpr
):
    """Mean and deviation of every patch from the pixels under it."""
    image, position, by_image, at, exists = both_orders(g)
    group = tl.program_id(1)
    y = position // g.out_width * g.stride_height - g.top
    x = position % g.out_width * g.stride_width - g.left
    base = image * g.height * g.width
    taps = g.kernel_height * g.kernel_width
    total = tl.zeros((SIDE, SIDE), tl.float32)
    for tap in tl.range(taps, loop_unroll_factor=9):
        row_at, row_in = source(y + tap // g.kernel_width * g.dilation_height, g.height, PADDING)
        col_at, col_in = source(x + tap % g.kernel_width * g.dilation_width, g.width, PADDING)
        pixel = (base + row_at * g.width + col_at) * g.groups + group
        total += tl.load(pixel_mean + pixel, mask=exists & row_in & col_in, other=0)
    mean = total / taps
    total = tl.zeros((SIDE, SIDE), tl.float32)
    for tap in tl.range(taps, loop_unroll_factor=9):
        row_at, row_in = source(y + tap // g.kernel_width * g.dilation_height, g.height, PADDING)
        col_at, col_in = source(x + tap % g.kernel_width * g.dilation_width, g.width, PADDING)
        pixel = (base + row_at * g.width + col_at) * g.groups + group
        mask = exists & row_in & col_in
        distance = tl.load(pixel_mean + pixel, mask=mask, other=0) - mean
        total += tl.load(pixel_variance + pixel, mask=mask, other=0) + distance * distance
    deviation = tl.sqrt(total / taps + eps)
    tl.store(patch_mean + at, mean, mask=exists)
    tl.store(patch_deviation + at, deviation, mask=exists)
    tl.store(norm + by_image, deviation * root_alpha, mask=exists)
    tl.store(sums + tl.program_id(0) * g.groups + group, tl.sum(tl.where(exists, deviation, 0.0)))


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
    layout, tile = _filter_layout(weight)
    filters, channels, taps, *_ = layout
    shape = (filters, taps, channels) if write else 0
    result = weight.new_empty(shape, dtype=torch.float16 if precision == "half" else dtype)
    moments = weight.new_empty((2, filters), dtype=torch.float32)
    _normalise_filters[(filters,)](weight, result, moments, *layout, PRECISION=precision, WRITE=write, **tile)
    return result, moments


def filters_gradient(partials: Tensor, weight: Tensor, moments: Tensor) -> Tensor:
    """Gradient of the raw filters from partial sums ``(parts, C_out, taps, C_in / groups)`` for the normalised ones."""
    gradient = torch.empty_like(weight, dtype=torch.float32)
    layout, tile = _filter_layout(weight)
    _filters_gradient[layout[:1]](partials, weight, moments, gradient, partials.shape[0], *layout, **tile)
    return gradient


def _filter_layout(weight: Tensor) -> tuple[tuple[int, ...], dict[str, int]]:
    """Filters, their channels and taps, strides of both; and the tile by which a program goes through a filter.

    Filters lie channel by channel or, channels last, tap by tap.
    """
    filters, channels = weight.shape[:2]
    taps = weight[0, 0].numel()
    strides = (taps, 1)
    if not weight.is_contiguous():
        assert weight.is_contiguous(memory_format=torch.channels_last)
        strides = (1, channels)
    wide = triton.next_power_of_2(taps)
    tall = max(1, min(triton.next_power_of_2(channels), _FILTER_TILE // wide))
    tile = {"CHANNELS": tall, "TAPS": wide, "num_warps": max(1, min(16, tall * wide // 512))}
    return (filters, channels, taps, *strides), tile


@triton.jit
def _normalise_filters(
    weight, result, moments, filters, channels, taps, channel_stride, tap_stride,
    PRECISION: tl.constexpr, WRITE: tl.constexpr, CHANNELS: tl.constexpr, TAPS: tl.constexpr,
):  # fmt: skip
    filter = tl.program_id(0)
    size = channels * taps
    base = filter.to(tl.int64) * size
    total = tl.zeros((CHANNELS, TAPS), tl.float32)
    for start in range(0, channels, CHANNELS):
        raw, _, exists = _filter_places(start, channels, taps, channel_stride, tap_stride, CHANNELS, TAPS)
        total += tl.load(weight + base + raw, mask=exists, other=0).to(tl.float32)
    mean = tl.sum(total) / size
    squares = tl.zeros((CHANNELS, TAPS), tl.float32)
    for start in range(0, channels, CHANNELS):
        raw, _, exists = _filter_places(start, channels, taps, channel_stride, tap_stride, CHANNELS, TAPS)
        distance = tl.load(weight + base + raw, mask=exists, other=0).to(tl.float32) - mean
        squares += tl.where(exists, distance * distance, 0)
    scale = 1 / tl.sqrt(tl.sum(squares) + _FLOOR)
    if WRITE:
        for start in range(0, channels, CHANNELS):
            raw, by_tap, exists = _filter_places(start, channels, taps, channel_stride, tap_stride, CHANNELS, TAPS)
            unit = (tl.load(weight + base + raw, mask=exists, other=0).to(tl.float32) - mean) * scale
            factor = as_factor(unit, result.dtype.element_ty, FILTER_UNIT, PRECISION)
            tl.store(result + base + by_tap, factor, mask=exists)
    tl.store(moments + filter, mean)
    tl.store(moments + filters + filter, scale)


@triton.jit(do_not_specialize=["parts"])
def _filters_gradient(
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
        raw, by_tap, exists = _filter_places(start, channels, taps, channel_stride, tap_stride, CHANNELS, TAPS)
        total = tl.zeros((CHANNELS, TAPS), tl.float32)
        for part in tl.range(parts, loop_unroll_factor=4):
            part_base = tl.cast(part, tl.int64) * filters * size + base
            total += tl.load(partials + part_base + by_tap, mask=exists, other=0).to(tl.float32)
        unit = (tl.load(weight + base + raw, mask=exists, other=0).to(tl.float32) - mean) * scale
        along_one += total
        along_filter += total * unit
        tl.store(gradient + base + raw, total, mask=exists)
    constant = tl.sum(along_one) / size
    cosine = tl.sum(along_filter)
    tl.debug_barrier()  # threads read below what others wrote above
    for start in range(0, channels, CHANNELS):
        raw, _, exists = _filter_places(start, channels, taps, channel_stride, tap_stride, CHANNELS, TAPS)
        unit = (tl.load(weight + base + raw, mask=exists, other=0).to(tl.float32) - mean) * scale
        total = tl.load(gradient + base + raw, mask=exists, other=0)
        tl.store(gradient + base + raw, (total - constant - unit * cosine) * scale, mask=exists)


@triton.jit
def _filter_places(start, channels, taps, channel_stride, tap_stride, CHANNELS: tl.constexpr, TAPS: tl.constexpr):
    """Where a tile of a filter lies in the weight, where it lies tap by tap, and which of it exists."""
    channel = (start + tl.arange(0, CHANNELS))[:, None]
    tap = tl.arange(0, TAPS)[None, :]
    raw = channel * channel_stride + tap * tap_stride
    return raw, tap * channels + channel, (channel < channels) & (tap < taps)
