"""Mean and deviation of every patch, from one pass over the input.

The channels at a pixel are summed up once; a patch's statistics then come from the few pixels under it. Variances are
sums of squared differences throughout: the difference of two large squares would drown the texture beside an edge.

Maps over positions lie as ``(groups, positions, images)``: rows of a product that share a position read them at once.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from xcnorm.ops.triton.geometry import SIDE, Geometry, both_orders, both_orders_grid, kernel, place, source

_TILE = 4096  # values of a program's tile


def patch_statistics(
    input: Tensor, g: Geometry, padding_mode: str, eps: float, *, copy: torch.dtype | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Mean, deviation and norm of every patch of ``(N, H, W, C)``, in float32.

    Args:
        input: ``(N, H, W, C)``.
        g: The geometry.
        padding_mode: How the input is padded.
        eps: Floor on the variance of a patch.
        copy: Dtype of a padded copy of the input, to be written along the way; None for none.

    Returns:
        Mean and deviation ``(groups, positions, images)``; partial sums of the deviation, one for each group and 16
        images by 16 positions; the norm of the centred patch, ``(N, positions, groups)``; and the input, or its padded
        copy.
    """
    level, within = (input.new_empty((g.images, g.height, g.width, g.groups), dtype=torch.float32) for _ in range(2))
    mean, deviation = (input.new_empty((g.groups, g.positions, g.images), dtype=torch.float32) for _ in range(2))
    norm = input.new_empty((g.images, g.positions, g.groups), dtype=torch.float32)
    grid = both_orders_grid(g.images, g.positions, g.groups)
    sums = input.new_empty(grid[0] * grid[1], dtype=torch.float32)
    padded = _walk_pixels(input, level, within, g, padding_mode, copy)
    if g.images:
        _patches[grid](
            level, within, mean, deviation, sums, norm, eps, g.alpha**0.5,
            g.images, g.height, g.width, g.out_height, g.out_width, g.groups, g.kernel_height, g.kernel_width,
            g.stride_height, g.stride_width, g.dilation_height, g.dilation_width, g.top, g.left,
            PADDING=padding_mode, SIDE=SIDE,
        )  # fmt: skip
    return mean, deviation, sums, norm, padded


def padded_copy(input: Tensor, g: Geometry, padding_mode: str, dtype: torch.dtype) -> Tensor:
    """``(N, H, W, C)`` with its padding."""
    return _walk_pixels(input, None, None, g, padding_mode, dtype)


def _walk_pixels(
    input: Tensor, level: Tensor | None, within: Tensor | None, g: Geometry, padding_mode: str, copy: torch.dtype | None
) -> Tensor:
    """Sum up the channels of every pixel, or copy the pixel to its places under the padding, or both at once."""
    border = (g.top, g.bottom, g.left, g.right) if copy else (0, 0, 0, 0)
    extent = (g.height + border[0] + border[1], g.width + border[2] + border[3])
    padded = input.new_empty((g.images, *extent, g.channels), dtype=copy) if copy else input
    if g.images:
        channels = min(triton.next_power_of_2(g.channels_per_group), 1024)
        block = max(1, _TILE // channels)
        _pixels[(triton.cdiv(g.images * extent[0] * extent[1], block), g.groups)](
            input, input if level is None else level, input if within is None else within, padded,
            g.images, g.height, g.width, g.channels, g.channels_per_group, g.groups, *extent, border[0], border[2],
            PADDING=padding_mode, COPY=copy is not None, SUM=level is not None,
            BLOCK=block, CHANNELS=channels, ONCE=channels >= g.channels_per_group,
        )  # fmt: skip
    return padded


@kernel
def _pixels(
    input, level, within, padded,
    images, height, width, channels, channels_per_group, groups, extent_height, extent_width, top, left,
    PADDING: tl.constexpr, COPY: tl.constexpr, SUM: tl.constexpr,
    BLOCK: tl.constexpr, CHANNELS: tl.constexpr, ONCE: tl.constexpr,
):  # fmt: skip
    """Mean of a pixel's channels, and the mean square of their distances from it, one group at a time."""
    group = tl.program_id(1)
    image, place_in, y, x, there = place(
        tl.program_id(0), images, extent_height * extent_width, extent_width, BLOCK, False
    )
    row_at, row_in = source(y - top, height, PADDING)
    col_at, col_in = source(x - left, width, PADDING)
    own = there & (y >= top) & (y < top + height) & (x >= left) & (x < left + width)
    inside = there & row_in & col_in
    pixel = (image * height + row_at) * width + col_at
    values = input + pixel * channels + group * channels_per_group
    copies = padded + (image * extent_height * extent_width + place_in) * channels + group * channels_per_group
    channel = tl.arange(0, CHANNELS)
    if ONCE:
        used = (channel < channels_per_group)[None, :]
        raw = tl.load(values[:, None] + channel[None, :], mask=inside[:, None] & used, other=0)
        if COPY:
            tl.store(copies[:, None] + channel[None, :], raw, mask=there[:, None] & used)
        tile = raw.to(tl.float32)
        mean = tl.sum(tile, 1) / channels_per_group
        distance = tl.where(used, tile - mean[:, None], 0)
        spread = tl.sum(distance * distance, 1)
    else:
        total = tl.zeros((BLOCK, CHANNELS), tl.float32)
        for start in range(0, channels_per_group, CHANNELS):
            used = (start + channel < channels_per_group)[None, :]
            raw = tl.load(values[:, None] + (start + channel)[None, :], mask=inside[:, None] & used, other=0)
            if COPY:
                tl.store(copies[:, None] + (start + channel)[None, :], raw, mask=there[:, None] & used)
            total += raw.to(tl.float32)
        mean = tl.sum(total, 1) / channels_per_group
        squares = tl.zeros((BLOCK, CHANNELS), tl.float32)
        if SUM:
            for start in range(0, channels_per_group, CHANNELS):
                used = (start + channel < channels_per_group)[None, :]
                raw = tl.load(values[:, None] + (start + channel)[None, :], mask=inside[:, None] & used, other=0)
                distance = tl.where(used, raw.to(tl.float32) - mean[:, None], 0)
                squares += distance * distance
        spread = tl.sum(squares, 1)
    if SUM:
        tl.store(level + pixel * groups + group, mean, mask=own)
        tl.store(within + pixel * groups + group, spread / channels_per_group, mask=own)


@kernel
def _patches(
    level, within, mean, deviation, sums, norm, eps, root_alpha,
    images, height, width, out_height, out_width, groups, kernel_height, kernel_width,
    stride_height, stride_width, dilation_height, dilation_width, top, left,
    PADDING: tl.constexpr, SIDE: tl.constexpr,
):  # fmt: skip
    """Mean and deviation of every patch from the pixels under it."""
    positions = out_height * out_width
    image, position, by_image, at, there = both_orders(images, positions, groups, SIDE)
    group = tl.program_id(1)
    y = position // out_width * stride_height - top
    x = position % out_width * stride_width - left
    base = image * height * width
    taps = kernel_height * kernel_width
    total = tl.zeros((SIDE, SIDE), tl.float32)
    for tap in tl.range(taps, loop_unroll_factor=9):
        row_at, row_in = source(y + tap // kernel_width * dilation_height, height, PADDING)
        col_at, col_in = source(x + tap % kernel_width * dilation_width, width, PADDING)
        pixel = (base + row_at * width + col_at) * groups + group
        total += tl.load(level + pixel, mask=there & row_in & col_in, other=0)
    centre = total / taps
    spread = tl.zeros((SIDE, SIDE), tl.float32)
    for tap in tl.range(taps, loop_unroll_factor=9):
        row_at, row_in = source(y + tap // kernel_width * dilation_height, height, PADDING)
        col_at, col_in = source(x + tap % kernel_width * dilation_width, width, PADDING)
        pixel = (base + row_at * width + col_at) * groups + group
        mask = there & row_in & col_in
        distance = tl.load(level + pixel, mask=mask, other=0) - centre
        spread += tl.load(within + pixel, mask=mask, other=0) + distance * distance
    root = tl.sqrt(spread / taps + eps)
    tl.store(mean + at, centre, mask=there)
    tl.store(deviation + at, root, mask=there)
    tl.store(norm + by_image, root * root_alpha, mask=there)
    tl.store(sums + tl.program_id(0) * groups + group, tl.sum(tl.where(there, root, 0.0)))
