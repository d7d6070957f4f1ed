"""Gradient of the normalised filters: patches are cut out, centred and bent a second time instead of being kept."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from xcnorm.ops.triton import configurations
from xcnorm.ops.triton.autotune import tuned
from xcnorm.ops.triton.geometry import Geometry, kernel, place, row_blocks, source
from xcnorm.ops.triton.precision import PATCH_UNIT, PROGRAMS, gradient_unit, operand
from xcnorm.ops.triton.robust import bend, standardise


def weight_gradient(
    gradient: Tensor,
    maxima: Tensor,
    input: Tensor,
    mean: Tensor,
    deviation: Tensor,
    c: Tensor | None,
    g: Geometry,
    *,
    padding_mode: str,
    robust: str | None,
    per_patch: bool,
    precision: str,
) -> Tensor:
    """Partial sums ``(parts, C_out, taps, C_in / groups)`` over the patches, in float32, to be added in order.

    Args:
        gradient: Of the product, ``(N, positions, C_out)``.
        maxima: Of the gradient; see `largest`.
        input: ``(N, H, W, C)``.
        mean: Of every patch, ``(groups, positions, images)``.
        deviation: The same.
        c: Scale of the robust function; None without one.
        g: The geometry.
        padding_mode: How the input is padded.
        robust: Name of the robust function.
        per_patch: Whether c is a multiple of the patch's deviation.
        precision: Of the product.
    """
    if not g.images:
        return input.new_zeros((1, g.out_channels, g.taps, g.channels_per_group), dtype=torch.float32)
    default, parts = configurations.weight_gradient(g, gradient.dtype, input.dtype)

    def run(block: configurations.Block) -> Tensor:
        result = input.new_empty((parts, g.out_channels, g.taps, g.channels_per_group), dtype=torch.float32)
        steps = row_blocks(g.images, g.positions, block.depth, block.position_major)
        grid = (
            triton.cdiv(g.filters_per_group, block.rows) * triton.cdiv(g.alpha, block.columns),
            parts,
            g.groups,
        )
        _weight_gradient[grid](
            gradient, maxima, maxima.numel(), input, mean, deviation, mean if c is None else c, result,
            steps, triton.cdiv(steps, parts),
            g.images, g.height, g.width, g.channels, g.out_height, g.out_width, g.out_channels,
            g.kernel_height, g.kernel_width, g.stride_height, g.stride_width, g.dilation_height, g.dilation_width,
            g.top, g.left, g.channels_per_group, g.filters_per_group,
            ROBUST=robust or "none", PER_PATCH=per_patch, PADDING=padding_mode,
            PRECISION=precision, PROGRAMS=PROGRAMS, POSITION_MAJOR=block.position_major,
            TAPPED=g.channels_per_group % block.columns == 0,
            VECTOR=next(size for size in (16, 8, 4, 2, 1) if g.channels_per_group % size == 0),
            ROWS=block.rows, COLUMNS=block.columns, DEPTH=block.depth,
            num_warps=block.warps, num_stages=block.stages, maxnreg=block.registers,
        )  # fmt: skip
        return result

    options = (gradient.dtype, input.dtype, precision, padding_mode, robust, per_patch)
    return run(tuned("weight gradient", default, g, options, run))


@kernel
def _weight_gradient(
    gradient, maxima, maxima_count, input, mean, deviation, c, result, steps, steps_of_part,
    images, height, width, channels, out_height, out_width, out_channels,
    kernel_height, kernel_width, stride_height, stride_width, dilation_height, dilation_width,
    top, left, channels_per_group, filters_per_group,
    ROBUST: tl.constexpr, PER_PATCH: tl.constexpr, PADDING: tl.constexpr, PRECISION: tl.constexpr,
    PROGRAMS: tl.constexpr, POSITION_MAJOR: tl.constexpr, TAPPED: tl.constexpr, VECTOR: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """One block of rows (filters) by columns (values of a patch); the sum runs over one part of all patches."""
    EXACT: tl.constexpr = PRECISION == "ieee" and gradient.dtype.element_ty == tl.float32
    DOT: tl.constexpr = "ieee" if PRECISION == "half" else PRECISION
    unit = gradient_unit(maxima, maxima_count, PRECISION, PROGRAMS)
    positions = out_height * out_width
    size = kernel_height * kernel_width * channels_per_group
    column_blocks = tl.cdiv(size, COLUMNS)
    column_block = tl.program_id(0) % column_blocks
    group = tl.program_id(2)
    filter = tl.program_id(0) // column_blocks * ROWS + tl.arange(0, ROWS)
    filter_there = filter < filters_per_group
    column = column_block * COLUMNS + tl.arange(0, COLUMNS)
    tap = column_block * COLUMNS // channels_per_group if TAPPED else column // channels_per_group
    offset_y = tap // kernel_width * dilation_height - top
    offset_x = tap % kernel_width * dilation_width - left
    channel = group * channels_per_group
    if TAPPED:
        # The compiler does not see that a block's first channel is a multiple of its width.
        channel += tl.multiple_of(column_block * COLUMNS % channels_per_group, COLUMNS) + tl.arange(0, COLUMNS)
    else:
        channel += column % channels_per_group

    first = tl.program_id(1) * steps_of_part
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    image_blocks = tl.cdiv(images, DEPTH)
    # Counters instead of divisions, which would cost as much as the tile's arithmetic.
    at_image = first % image_blocks * DEPTH
    at_y = first // image_blocks // out_width
    at_x = first // image_blocks % out_width
    for step in range(first, tl.minimum(first + steps_of_part, steps)):
        if POSITION_MAJOR:
            image = at_image + tl.arange(0, DEPTH)
            there = image < images
            image = tl.minimum(image, images - 1).to(tl.int64)
            y, x = at_y, at_x
            position = y * out_width + x
            at_image += DEPTH
            last = at_image >= images
            at_image = tl.where(last, 0, at_image)
            at_x = tl.where(last, at_x + 1, at_x)
            last = at_x == out_width
            at_x = tl.where(last, 0, at_x)
            at_y = tl.where(last, at_y + 1, at_y)
        else:
            image, position, y, x, there = place(step, images, positions, out_width, DEPTH, False)
        at = (group.to(tl.int64) * positions + position) * images + image
        centre = tl.load(mean + at)
        if ROBUST == "none":
            scale = tl.load(deviation + at)
        elif PER_PATCH:
            scale = tl.load(c) * tl.load(deviation + at)
        else:
            scale = tl.load(c) + 0 * centre
        y = y * stride_height
        x = x * stride_width
        base = input + image * height * width * channels
        if TAPPED or POSITION_MAJOR:
            row_at, row_in = source(y + offset_y, height, PADDING)
            col_at, col_in = source(x + offset_x, width, PADDING)
            within = (row_at * width + col_at) * channels
            inside = row_in & col_in
        if POSITION_MAJOR:
            within += channel
            if not TAPPED:
                within = tl.max_contiguous(tl.multiple_of(within, VECTOR), VECTOR)
                inside = (inside & (column < size))[None, :]
            addresses = base[:, None] + within[None, :]
        elif TAPPED:
            addresses = (base + within)[:, None] + channel[None, :]
            inside = inside[:, None]
        else:
            row_at, row_in = source(y[:, None] + offset_y[None, :], height, PADDING)
            col_at, col_in = source(x[:, None] + offset_x[None, :], width, PADDING)
            addresses = base[:, None] + (row_at * width + col_at) * channels + channel[None, :]
            inside = row_in & col_in & (column < size)[None, :]
        tile = tl.load(addresses, mask=inside, other=0)
        h, _ = bend(standardise(tile, centre, 1 / scale, EXACT), ROBUST, EXACT)
        gradient_tile = tl.load(
            (gradient + (image * positions + position) * out_channels + group * filters_per_group)[:, None]
            + filter[None, :],
            mask=there[:, None] & filter_there[None, :], other=0,
        )  # fmt: skip
        dtype = gradient.dtype.element_ty
        factor = operand(gradient_tile, dtype, unit, PRECISION)
        total = tl.dot(tl.trans(factor), operand(h, dtype, PATCH_UNIT, PRECISION), total, input_precision=DOT)
    if PRECISION == "half":
        total *= 1 / (unit * PATCH_UNIT)
    out = (tl.program_id(1).to(tl.int64) * out_channels + group * filters_per_group + filter)[:, None] * size
    tl.store(result + out + column[None, :], total, mask=filter_there[:, None] & (column < size)[None, :])
