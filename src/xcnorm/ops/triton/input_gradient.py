"""Gradient of the input: each pixel gathers what reaches it, kernel offset by kernel offset, so nothing is scattered.

A pixel is read by the patches around it, once for every kernel offset, and again through padding that copies it. With a
robust function each of those products is multiplied by the slope at that patch before it is summed, and its share in
the gradients of the patch's mean and scale is put down, one number per patch and offset.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from xcnorm.ops.triton import configurations
from xcnorm.ops.triton.autotune import tuned
from xcnorm.ops.triton.geometry import Geometry, kernel, mirrored, place, reaching, row_blocks, some
from xcnorm.ops.triton.precision import FILTER_UNIT, PROGRAMS, gradient_unit, operand
from xcnorm.ops.triton.robust import bend, standardise
from xcnorm.ops.triton.shares import Shares, gather_shares


def input_gradient(
    gradient: Tensor,
    maxima: Tensor,
    input: Tensor,
    filters: Tensor,
    moments: Tensor | None,
    mean: Tensor,
    deviation: Tensor,
    c: Tensor | None,
    pull: Tensor | None,
    shares: Shares | None,
    g: Geometry,
    *,
    padding_mode: str,
    robust: str | None,
    per_patch: bool,
    precision: str,
) -> tuple[Tensor, Tensor]:
    """Gradient of the input; with a robust function, without the part through mean and scale.

    Args:
        gradient: Of the product, ``(N, positions, C_out)``.
        maxima: Of the gradient; see `largest`.
        input: ``(N, H, W, C)``.
        filters: ``(C_out, taps, C_in / groups)``.
        moments: Mean and inverse norm of each filter, ``(2, C_out)``, if they are raw; None if they are normalised.
        mean: Of every patch, ``(groups, positions, images)``.
        deviation: The same.
        c: Scale of the robust function; None without one.
        pull: Twice the gradient of each patch's energy, ``(groups, positions, images)``; None without one.
        shares: The part through mean and deviation; None with a robust function, which this has yet to find.
        g: The geometry.
        padding_mode: How the input is padded.
        robust: Name of the robust function.
        per_patch: Whether c is a multiple of the patch's deviation.
        precision: Of the product.

    Returns:
        ``(N, H, W, C)`` in the input's dtype; and, with a robust function, ``(2, parts, groups, positions, images)``,
        whose sum over parts is, for each patch, the sum of the gradients of its values t, and of their products with t.
    """
    default = configurations.input_gradient(g, gradient.dtype)
    parts = triton.cdiv(g.channels_per_group, default.columns) * g.taps if robust else 0
    sums = mean.new_empty((2, parts, g.groups, g.positions, g.images))
    result = torch.empty_like(input)
    if not g.images:
        return result, sums
    # Padding zeros are pixels that nobody asks the gradient of, but a robust patch's mean reaches them too.
    border = (g.top, g.bottom, g.left, g.right) if robust and padding_mode == "zeros" else (0, 0, 0, 0)
    extent = (g.height + border[0] + border[1], g.width + border[2] + border[3])
    size = g.taps * g.channels_per_group
    strides = (size, g.channels_per_group, 1)  # of filter, kernel offset and channel
    if filters.dtype == torch.float32 and moments is None:
        # Unlike shorter types, the matrix units take float32 only with the axis of the sum contiguous.
        filters = filters.unflatten(0, (g.groups, -1)).permute(0, 2, 3, 1).contiguous()
        strides = (1, g.channels_per_group * g.filters_per_group, g.filters_per_group)
    unused = mean

    def run(block: configurations.Block) -> None:
        rows = row_blocks(g.images, extent[0] * extent[1], block.rows, block.position_major)
        grid = (rows * triton.cdiv(g.channels_per_group, block.columns), g.groups)
        _input_gradient[grid](
            gradient, maxima, maxima.numel(), input, filters, unused if moments is None else moments, mean, deviation,
            shares.constant if shares else unused, shares.slope if shares else unused,
            unused if c is None else c, unused if pull is None else pull, sums, result,
            g.images, g.height, g.width, g.channels, g.out_height, g.out_width, g.out_channels, g.groups,
            g.kernel_height, g.kernel_width, g.stride_height, g.stride_width, g.dilation_height, g.dilation_width,
            g.top, g.bottom, g.left, g.right, g.channels_per_group, g.filters_per_group,
            border[0], border[2], extent[0], extent[1], *strides,
            ROBUST=robust or "none", PER_PATCH=per_patch, PADDING=padding_mode,
            PRECISION=precision, PROGRAMS=PROGRAMS, POSITION_MAJOR=block.position_major,
            RAW=moments is not None, EVEN=g.filters_per_group % block.depth == 0,
            FULL=g.channels_per_group % block.columns == 0,
            ROWS=block.rows, COLUMNS=block.columns, DEPTH=block.depth,
            num_warps=block.warps, num_stages=block.stages, maxnreg=block.registers,
        )  # fmt: skip

    options = (gradient.dtype, input.dtype, precision, padding_mode, robust, per_patch, moments is None)
    run(tuned("input gradient", default, g, options, run))
    return result, sums


@kernel
def _input_gradient(
    gradient, maxima, maxima_count, input, filters, moments, mean, deviation,
    share_constant, share_slope, c, pull, sums, result,
    images, height, width, channels, out_height, out_width, out_channels, groups,
    kernel_height, kernel_width, stride_height, stride_width, dilation_height, dilation_width,
    top, bottom, left, right, channels_per_group, filters_per_group,
    border_top, border_left, extent_height, extent_width, filter_stride, tap_stride, channel_stride,
    ROBUST: tl.constexpr, PER_PATCH: tl.constexpr, PADDING: tl.constexpr, PRECISION: tl.constexpr,
    PROGRAMS: tl.constexpr, POSITION_MAJOR: tl.constexpr, RAW: tl.constexpr, EVEN: tl.constexpr, FULL: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """One block of rows (pixels) by columns (channels); the sum runs over kernel offsets, then filters."""
    EXACT: tl.constexpr = PRECISION == "ieee" and gradient.dtype.element_ty == tl.float32
    DOT: tl.constexpr = "ieee" if PRECISION == "half" else PRECISION
    unit = gradient_unit(maxima, maxima_count, PRECISION, PROGRAMS)
    positions = out_height * out_width
    column_blocks = tl.cdiv(channels_per_group, COLUMNS)
    column_block = tl.program_id(0) % column_blocks
    group = tl.program_id(1)
    image, _, y, x, there = place(
        tl.program_id(0) // column_blocks, images, extent_height * extent_width, extent_width, ROWS, POSITION_MAJOR
    )
    y -= border_top
    x -= border_left
    channel = column_block * COLUMNS + tl.arange(0, COLUMNS)
    channel_there = channel < channels_per_group
    shown = there & (y >= 0) & (y < height) & (x >= 0) & (x < width)
    pixel = (image * height + y) * width + x
    at_input = pixel[:, None] * channels + group * channels_per_group + channel[None, :]
    stored = shown[:, None] & channel_there[None, :]
    factor_c = tl.full((), 1.0, tl.float32)
    if ROBUST != "none":
        values = tl.load(input + at_input, mask=stored, other=0).to(tl.float32)
        factor_c = tl.load(c)
        # Into the layout of the product's result, once: every kernel offset would convert it otherwise.
        values = tl.dot(tl.zeros((ROWS, 16), tl.float16), tl.zeros((16, COLUMNS), tl.float16), values)

    deep = tl.arange(0, DEPTH)
    chunks = tl.cdiv(filters_per_group, DEPTH)
    gradient_base = gradient + image * positions * out_channels + group * filters_per_group
    map_base = group.to(tl.int64) * positions * images + image
    filter_base = filters + group.to(tl.int64) * filters_per_group * kernel_height * kernel_width * channels_per_group
    result_tile = tl.zeros((ROWS, COLUMNS), tl.float32)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    copies_y = 1 if PADDING == "zeros" else 1 + top + bottom
    copies_x = 1 if PADDING == "zeros" else 1 + left + right
    for copy_y in range(copies_y):
        padded_y, is_y = mirrored(copy_y, y, height, top, PADDING)
        if some(is_y, POSITION_MAJOR):
            first_y, step_y, count_y = reaching(
                padded_y, out_height, kernel_height, stride_height, dilation_height, POSITION_MAJOR
            )
            for copy_x in range(copies_x):
                padded_x, is_x = mirrored(copy_x, x, width, left, PADDING)
                if some(is_x, POSITION_MAJOR):
                    first_x, step_x, count_x = reaching(
                        padded_x, out_width, kernel_width, stride_width, dilation_width, POSITION_MAJOR
                    )
                    for step in range(count_y * count_x * chunks):
                        offset_y = first_y + step // chunks // count_x * step_y
                        offset_x = first_x + step // chunks % count_x * step_x
                        tap = offset_y * kernel_width + offset_x
                        out_y = padded_y - offset_y * dilation_height
                        out_x = padded_x - offset_x * dilation_width
                        used = there & is_y & is_x & (out_y >= 0) & (out_x >= 0)
                        used &= (out_y % stride_height == 0) & (out_x % stride_width == 0)
                        out_y = out_y // stride_height
                        out_x = out_x // stride_width
                        used &= (out_y < out_height) & (out_x < out_width)
                        position = out_y * out_width + out_x
                        at_map = map_base + position * images

                        filter = step % chunks * DEPTH + deep
                        gradient_mask = used[:, None]
                        filter_mask = channel_there[None, :]
                        if not EVEN:
                            gradient_mask &= (filter < filters_per_group)[None, :]
                            filter_mask &= (filter < filters_per_group)[:, None]
                        gradient_tile = tl.load(
                            (gradient_base + position * out_channels)[:, None] + filter[None, :],
                            mask=gradient_mask, other=0,
                        )  # fmt: skip
                        filter_tile = tl.load(
                            filter_base + filter[:, None] * filter_stride + tap * tap_stride
                            + channel[None, :] * channel_stride,
                            mask=filter_mask, other=0,
                        )  # fmt: skip
                        if RAW:
                            at_moments = moments + group * filters_per_group + filter
                            filter_mean = tl.load(at_moments, mask=filter < filters_per_group, other=0)
                            filter_scale = tl.load(at_moments + out_channels, mask=filter < filters_per_group, other=0)
                            filter_tile = (filter_tile.to(tl.float32) - filter_mean[:, None]) * filter_scale[:, None]
                            filter_tile = operand(filter_tile, gradient.dtype.element_ty, 1.0, PRECISION)
                        scale = factor_c
                        if ROBUST == "none" or PER_PATCH:
                            scale *= tl.load(deviation + at_map, mask=used, other=1)
                        if ROBUST == "none":
                            gradient_tile = gradient_tile.to(tl.float32) / scale[:, None]
                            factor = operand(gradient_tile, gradient.dtype.element_ty, unit, PRECISION)
                            result_tile = tl.dot(factor, filter_tile, result_tile, input_precision=DOT)
                        else:
                            centre = tl.load(mean + at_map, mask=used, other=0)
                            rate = 1 / scale if PER_PATCH else 1 / scale + 0 * centre
                            drawn = tl.load(pull + at_map, mask=used, other=0)
                            factor = operand(gradient_tile, gradient.dtype.element_ty, unit, PRECISION)
                            total = tl.dot(factor, filter_tile, total, input_precision=DOT)
                            if step % chunks == chunks - 1:
                                t = standardise(values, centre, rate, EXACT)
                                h, slope = bend(t, ROBUST, EXACT)
                                if PRECISION == "half":
                                    total *= 1 / (unit * FILTER_UNIT)
                                total = (total + drawn[:, None] * h) * slope
                                if not FULL:
                                    total = tl.where(channel_there[None, :], total, 0)
                                result_tile += total * rate[:, None]
                                part = (column_block * kernel_height * kernel_width + tap).to(tl.int64)
                                at_sums = part * groups * positions * images + at_map
                                parts = tl.cast(column_blocks, tl.int64) * kernel_height * kernel_width
                                tl.store(sums + at_sums, tl.sum(total, 1), mask=used)
                                at_sums += parts * groups * positions * images
                                tl.store(sums + at_sums, tl.sum(total * t, 1), mask=used)
                                total = tl.zeros((ROWS, COLUMNS), tl.float32)
    if ROBUST == "none":
        constant, slope = gather_shares(
            share_constant, share_slope, image, y, x, group, images, height, width, out_height, out_width,
            kernel_height, kernel_width, stride_height, stride_width, dilation_height, dilation_width,
            top, bottom, left, right, PADDING, ROWS, POSITION_MAJOR,
        )  # fmt: skip
        values = tl.load(input + at_input, mask=stored, other=0).to(tl.float32)
        result_tile += constant[:, None] + slope[:, None] * values
    tl.store(result + at_input, result_tile.to(result.dtype.element_ty), mask=stored)
