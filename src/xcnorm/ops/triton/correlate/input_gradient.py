"""Gradient of the input: each pixel gathers what reaches it, kernel offset by kernel offset, so nothing is scattered.

A pixel is read by the patches around it, once for every kernel offset, and again through padding that copies it. With a
robust function each of those products is multiplied by the slope at that patch before it is summed, and its part of
the gradients of the patch's mean and scale is put down, one number per patch and offset.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from xcnorm.ops.triton.autotune import Block, power_of_two, tuned
from xcnorm.ops.triton.correlate.forward import FILTER_UNIT, apply_phi, as_factor, standardise
from xcnorm.ops.triton.correlate.gather import any_of, gather, padded_place, patch_at, reaching_offsets
from xcnorm.ops.triton.correlate.gradient_unit import gradient_unit
from xcnorm.ops.triton.correlate.statistics_gradient import StatisticsGradient
from xcnorm.ops.triton.geometry import Geometry, Problem, Sides, place, row_blocks


def input_gradient(
    gradient: Tensor,
    maxima: Tensor | None,
    sides: Sides,
    energy_gradient: Tensor | None,
    statistics: StatisticsGradient | None,
    p: Problem,
) -> tuple[Tensor, Tensor]:
    """Gradient of the input; with a robust function, without the part through mean and scale.

    Args:
        gradient: Of the product, ``(N, positions, C_out)``.
        maxima: Of the gradient; see `largest`.
        sides: Of the product.
        energy_gradient: Twice the gradient of each patch's energy, ``(groups, positions, images)``; None without one.
        statistics: The part through mean and deviation; None with a robust function, which this has yet to find.
        p: What is correlated.

    Returns:
        ``(N, H, W, C)`` in the input's dtype; and, with a robust function, ``(2, parts, groups, positions, images)``,
        whose sum over parts is, for each patch, the sum of the gradients of its values t, and of their products with t.
    """
    g, input, filters = p.geometry, sides.input, sides.filters
    default = _block(g, gradient.dtype)
    parts = triton.cdiv(g.channels_per_group, default.columns) * g.taps if p.robust else 0
    sums = sides.mean.new_empty((2, parts, g.groups, g.positions, g.images))
    result = torch.empty_like(input)
    if not g.images:
        return result, sums
    # Padding zeros are pixels that nobody asks the gradient of, but a robust patch's mean reaches them too.
    frame = _, _, height, width = g.frame(padding=p.robust is not None and p.padding == "zeros")
    strides = (g.alpha, g.channels_per_group, 1)  # of filter, kernel offset and channel
    if filters.dtype == torch.float32 and sides.moments is None:
        # Unlike shorter types, the matrix units take float32 only with the axis of the sum contiguous.
        filters = filters.unflatten(0, (g.groups, -1)).permute(0, 2, 3, 1).contiguous()
        strides = (1, g.channels_per_group * g.filters_per_group, g.filters_per_group)

    def run(block: Block) -> None:
        rows = row_blocks(g.images, height * width, block.rows, block.position_major)
        _input_gradient[(rows * triton.cdiv(g.channels_per_group, block.columns), g.groups)](
            gradient, maxima, 0 if maxima is None else maxima.numel(), input, filters, *sides[2:], strides,
            energy_gradient, *(statistics or (None, None)), sums, result, g, frame, **p.constants,
            EVEN_DEPTH=g.filters_per_group % block.depth == 0, EVEN_COLUMNS=g.channels_per_group % block.columns == 0,
            **block.constants,
        )  # fmt: skip

    run(tuned("input gradient", default, p, (gradient.dtype, input.dtype, sides.moments is None), run))
    return result, sums


def _block(g: Geometry, dtype: torch.dtype) -> Block:
    """The block to start with, by the dtype of the product: rows are pixels, columns channels."""
    wide = dtype == torch.float32 and g.channels_per_group % 128 == 0 and g.taps > 1
    columns = power_of_two(g.channels_per_group, 16, 128 if wide else 64)
    depth = power_of_two(g.filters_per_group, 16, 64)
    stages = 2 if dtype == torch.float32 and not wide else 3
    return Block(64, columns, depth, 4, stages, g.position_major, None if wide else 168)


@triton.jit(do_not_specialize=["maxima_count"])
def _input_gradient(
    gradient, maxima, maxima_count, input, filters, moments, patch_mean, patch_deviation, c, strides,
    energy_gradient, constant, slope, sums, result, g, frame,
    PHI: tl.constexpr, PER_PATCH: tl.constexpr, PADDING: tl.constexpr, PRECISION: tl.constexpr,
    EVEN_DEPTH: tl.constexpr, EVEN_COLUMNS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, POSITION_MAJOR: tl.constexpr,
):  # fmt: skip
    """One block of rows (pixels) by columns (channels); the sum runs over kernel offsets, then filters."""
    EXACT: tl.constexpr = PRECISION == "ieee" and gradient.dtype.element_ty == tl.float32
    DOT: tl.constexpr = "ieee" if PRECISION == "half" else PRECISION
    unit = gradient_unit(maxima, maxima_count)
    positions = g.out_height * g.out_width
    column_blocks = tl.cdiv(g.channels_per_group, COLUMNS)
    column_block = tl.program_id(0) % column_blocks
    group = tl.program_id(1)
    top, left, height, width = frame
    image, _, y, x, exists = place(
        tl.program_id(0) // column_blocks, g.images, height * width, width, ROWS, POSITION_MAJOR
    )
    y -= top
    x -= left
    channel = column_block * COLUMNS + tl.arange(0, COLUMNS)
    channel_exists = channel < g.channels_per_group
    shown = exists & (y >= 0) & (y < g.height) & (x >= 0) & (x < g.width)
    pixel = (image * g.height + y) * g.width + x
    at_input = pixel[:, None] * g.channels + group * g.channels_per_group + channel[None, :]
    stored = shown[:, None] & channel_exists[None, :]
    factor_c = tl.full((), 1.0, tl.float32)
    if PHI is not None:
        values = tl.load(input + at_input, mask=stored, other=0).to(tl.float32)
        factor_c = tl.load(c)
        # Into the layout of the product's result, once: every kernel offset would convert it otherwise.
        values = tl.dot(tl.zeros((ROWS, 16), tl.float16), tl.zeros((16, COLUMNS), tl.float16), values)

    deep = tl.arange(0, DEPTH)
    chunks = tl.cdiv(g.filters_per_group, DEPTH)
    gradient_base = gradient + image * positions * g.out_channels + group * g.filters_per_group
    map_base = group.to(tl.int64) * positions * g.images + image
    taps = g.kernel_height * g.kernel_width
    filter_base = filters + group.to(tl.int64) * g.filters_per_group * taps * g.channels_per_group
    result_tile = tl.zeros((ROWS, COLUMNS), tl.float32)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    copies_y = 1 if PADDING == "zeros" else 1 + g.top + g.bottom
    copies_x = 1 if PADDING == "zeros" else 1 + g.left + g.right
    for copy_y in range(copies_y):
        padded_y, is_y = padded_place(copy_y, y, g.height, g.top, PADDING)
        if any_of(is_y, POSITION_MAJOR):
            first_y, step_y, count_y = reaching_offsets(
                padded_y, g.out_height, g.kernel_height, g.stride_height, g.dilation_height, POSITION_MAJOR
            )
            for copy_x in range(copies_x):
                padded_x, is_x = padded_place(copy_x, x, g.width, g.left, PADDING)
                if any_of(is_x, POSITION_MAJOR):
                    first_x, step_x, count_x = reaching_offsets(
                        padded_x, g.out_width, g.kernel_width, g.stride_width, g.dilation_width, POSITION_MAJOR
                    )
                    for step in range(count_y * count_x * chunks):
                        offset_y = first_y + step // chunks // count_x * step_y
                        offset_x = first_x + step // chunks % count_x * step_x
                        tap = offset_y * g.kernel_width + offset_x
                        out_y = padded_y - offset_y * g.dilation_height
                        out_x = padded_x - offset_x * g.dilation_width
                        position, used = patch_at(out_y, out_x, exists & is_y & is_x, g)
                        at_map = map_base + position * g.images

                        filter = step % chunks * DEPTH + deep
                        gradient_mask = used[:, None]
                        filter_mask = channel_exists[None, :]
                        if not EVEN_DEPTH:
                            gradient_mask &= (filter < g.filters_per_group)[None, :]
                            filter_mask &= (filter < g.filters_per_group)[:, None]
                        gradient_tile = tl.load(
                            (gradient_base + position * g.out_channels)[:, None] + filter[None, :],
                            mask=gradient_mask, other=0,
                        )  # fmt: skip
                        filter_tile = tl.load(
                            filter_base + filter[:, None] * strides[0] + tap * strides[1]
                            + channel[None, :] * strides[2],
                            mask=filter_mask, other=0,
                        )  # fmt: skip
                        if moments is not None:
                            at_moments = moments + group * g.filters_per_group + filter
                            known = filter < g.filters_per_group
                            filter_mean = tl.load(at_moments, mask=known, other=0)
                            filter_scale = tl.load(at_moments + g.out_channels, mask=known, other=0)
                            filter_tile = (filter_tile.to(tl.float32) - filter_mean[:, None]) * filter_scale[:, None]
                            filter_tile = as_factor(filter_tile, gradient.dtype.element_ty, 1.0, PRECISION)
                        scale = factor_c
                        if PHI is None or PER_PATCH:
                            scale *= tl.load(patch_deviation + at_map, mask=used, other=1)
                        if PHI is None:
                            gradient_tile = gradient_tile.to(tl.float32) / scale[:, None]
                            factor = as_factor(gradient_tile, gradient.dtype.element_ty, unit, PRECISION)
                            result_tile = tl.dot(factor, filter_tile, result_tile, input_precision=DOT)
                        else:
                            mean = tl.load(patch_mean + at_map, mask=used, other=0)
                            rate = 1 / scale if PER_PATCH else 1 / scale + 0 * mean
                            to_energy = tl.load(energy_gradient + at_map, mask=used, other=0)
                            factor = as_factor(gradient_tile, gradient.dtype.element_ty, unit, PRECISION)
                            total = tl.dot(factor, filter_tile, total, input_precision=DOT)
                            if step % chunks == chunks - 1:
                                t = standardise(values, mean, rate, EXACT)
                                h, phi_slope = apply_phi(t, PHI, EXACT)
                                if PRECISION == "half":
                                    total *= 1 / (unit * FILTER_UNIT)
                                total = (total + to_energy[:, None] * h) * phi_slope
                                if not EVEN_COLUMNS:
                                    total = tl.where(channel_exists[None, :], total, 0)
                                result_tile += total * rate[:, None]
                                part = (column_block * taps + tap).to(tl.int64)
                                at_sums = part * g.groups * positions * g.images + at_map
                                parts = tl.cast(column_blocks, tl.int64) * taps
                                tl.store(sums + at_sums, tl.sum(total, 1), mask=used)
                                at_sums += parts * g.groups * positions * g.images
                                tl.store(sums + at_sums, tl.sum(total * t, 1), mask=used)
                                total = tl.zeros((ROWS, COLUMNS), tl.float32)
    if PHI is None:
        all_constant, all_slope = gather(constant, slope, image, y, x, group, g, PADDING, ROWS, POSITION_MAJOR)
        values = tl.load(input + at_input, mask=stored, other=0).to(tl.float32)
        result_tile += all_constant[:, None] + all_slope[:, None] * values
    tl.store(result + at_input, result_tile.to(result.dtype.element_ty), mask=stored)
