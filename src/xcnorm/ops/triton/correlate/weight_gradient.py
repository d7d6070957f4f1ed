"""Gradient of the normalised filters: patches are cut out and put through phi a second time instead of being kept."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from xcnorm.ops.triton.autotune import PROCESSORS, Block, power_of_two, scattered, tuned
from xcnorm.ops.triton.correlate.forward import PATCH_UNIT, apply_phi, as_factor, read_patches, standardise
from xcnorm.ops.triton.correlate.gradient_unit import gradient_unit
from xcnorm.ops.triton.geometry import Geometry, Problem, Sides, place, row_blocks


def weight_gradient(gradient: Tensor, maxima: Tensor | None, sides: Sides, p: Problem) -> Tensor:
    """Partial sums ``(parts, C_out, taps, C_in / groups)`` over the patches, in float32, to be added in order.

    Args:
        gradient: Of the product, ``(N, positions, C_out)``.
        maxima: Of the gradient; see `largest`.
        sides: Of the product.
        p: What is correlated.
    """
    g, input = p.geometry, sides.input
    if not g.images:
        return input.new_zeros((1, g.out_channels, g.taps, g.channels_per_group), dtype=torch.float32)
    default, parts = _block(g, gradient.dtype, input.dtype)

    def run(block: Block) -> Tensor:
        result = input.new_empty((parts, g.out_channels, g.taps, g.channels_per_group), dtype=torch.float32)
        steps = row_blocks(g.images, g.positions, block.depth, block.position_major)
        blocks = triton.cdiv(g.filters_per_group, block.rows) * triton.cdiv(g.alpha, block.columns)
        _weight_gradient[(blocks, parts, g.groups)](
            gradient, maxima, 0 if maxima is None else maxima.numel(), input, *sides[3:], result, steps,
            triton.cdiv(steps, parts), g, **p.constants, ONE_TAP=g.channels_per_group % block.columns == 0,
            VECTOR=next(size for size in (16, 8, 4, 2, 1) if g.channels_per_group % size == 0), **block.constants,
        )  # fmt: skip
        return result

    return run(tuned("weight gradient", default, p, (gradient.dtype, input.dtype), run))


def _block(g: Geometry, dtype: torch.dtype, input: torch.dtype) -> tuple[Block, int]:
    """The block to start with, by the dtypes: rows are filters, columns values of a patch; and the number of parts."""
    single = dtype == torch.float32
    rows = power_of_two(g.filters_per_group, 16, 128)
    wide = rows == 128 and g.channels_per_group % 128 == 0 and (single or g.images >= 128)
    fits = (size for size in (128 if wide else 64, 32) if g.channels_per_group % size == 0)
    columns = next(fits, power_of_two(g.alpha, 16, 64))
    by_value = scattered(g, input)
    depth = 32 if single and not by_value else 128 if not single and rows < 128 and g.images >= 128 else 64
    blocks = triton.cdiv(g.filters_per_group, rows) * triton.cdiv(g.alpha, columns) * g.groups
    steps = row_blocks(g.images, g.positions, depth, g.position_major)
    # Programs on a multiprocessor at a time.
    resident = 2 if wide else 4 if single and rows < 128 and not by_value else 3
    parts = max(1, min(resident * PROCESSORS // blocks, steps // 8))
    stages = 1 if by_value else 2 if depth == 128 or (wide and not single) else 3
    return Block(rows, columns, depth, 8 if wide else 4, stages, g.position_major, 128 if wide else None), parts


@triton.jit(do_not_specialize=["maxima_count", "steps", "steps_of_part"])
def _weight_gradient(
    gradient, maxima, maxima_count, input, patch_mean, patch_deviation, c, result, steps, steps_of_part, g,
    PHI: tl.constexpr, PER_PATCH: tl.constexpr, PADDING: tl.constexpr, PRECISION: tl.constexpr,
    ONE_TAP: tl.constexpr, VECTOR: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, POSITION_MAJOR: tl.constexpr,
):  # fmt: skip
    """One block of rows (filters) by columns (values of a patch); the sum runs over one part of all patches."""
    EXACT: tl.constexpr = PRECISION == "ieee" and gradient.dtype.element_ty == tl.float32
    DOT: tl.constexpr = "ieee" if PRECISION == "half" else PRECISION
    unit = gradient_unit(maxima, maxima_count)
    positions = g.out_height * g.out_width
    alpha = g.kernel_height * g.kernel_width * g.channels_per_group
    column_blocks = tl.cdiv(alpha, COLUMNS)
    column_block = tl.program_id(0) % column_blocks
    group = tl.program_id(2)
    filter = tl.program_id(0) // column_blocks * ROWS + tl.arange(0, ROWS)
    filter_exists = filter < g.filters_per_group
    column = column_block * COLUMNS + tl.arange(0, COLUMNS)
    tap = column_block * COLUMNS // g.channels_per_group if ONE_TAP else column // g.channels_per_group
    offset_y = tap // g.kernel_width * g.dilation_height - g.top
    offset_x = tap % g.kernel_width * g.dilation_width - g.left
    channel = group * g.channels_per_group
    if ONE_TAP:
        # The compiler does not see that a block's first channel is a multiple of its width.
        channel += tl.multiple_of(column_block * COLUMNS % g.channels_per_group, COLUMNS) + tl.arange(0, COLUMNS)
    else:
        channel += column % g.channels_per_group

    first = tl.program_id(1) * steps_of_part
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    image_blocks = tl.cdiv(g.images, DEPTH)
    # Counters instead of divisions, which would cost as much as the tile's arithmetic.
    at_image = first % image_blocks * DEPTH
    at_y = first // image_blocks // g.out_width
    at_x = first // image_blocks % g.out_width
    for step in range(first, tl.minimum(first + steps_of_part, steps)):
        if POSITION_MAJOR:
            image = at_image + tl.arange(0, DEPTH)
            exists = image < g.images
            image = tl.minimum(image, g.images - 1).to(tl.int64)
            y, x = at_y, at_x
            position = y * g.out_width + x
            at_image += DEPTH
            last = at_image >= g.images
            at_image = tl.where(last, 0, at_image)
            at_x = tl.where(last, at_x + 1, at_x)
            last = at_x == g.out_width
            at_x = tl.where(last, 0, at_x)
            at_y = tl.where(last, at_y + 1, at_y)
        else:
            image, position, y, x, exists = place(step, g.images, positions, g.out_width, DEPTH, False)
        at = (group.to(tl.int64) * positions + position) * g.images + image
        mean = tl.load(patch_mean + at)
        if PHI is None:
            scale = tl.load(patch_deviation + at)
        elif PER_PATCH:
            scale = tl.load(c) * tl.load(patch_deviation + at)
        else:
            scale = tl.load(c) + 0 * mean
        y = y * g.stride_height
        x = x * g.stride_width
        base = input + image * g.height * g.width * g.channels
        tile = read_patches(
            base, y, x, offset_y, offset_x, channel, column < alpha, g, PADDING, ONE_TAP, POSITION_MAJOR, VECTOR
        )
        h, _ = apply_phi(standardise(tile, mean, 1 / scale, EXACT), PHI, EXACT)
        gradient_tile = tl.load(
            (gradient + (image * positions + position) * g.out_channels + group * g.filters_per_group)[:, None]
            + filter[None, :],
            mask=exists[:, None] & filter_exists[None, :], other=0,
        )  # fmt: skip
        dtype = gradient.dtype.element_ty
        factor = as_factor(gradient_tile, dtype, unit, PRECISION)
        total = tl.dot(tl.trans(factor), as_factor(h, dtype, PATCH_UNIT, PRECISION), total, input_precision=DOT)
    if PRECISION == "half":
        total *= 1 / (unit * PATCH_UNIT)
    out = (tl.program_id(1).to(tl.int64) * g.out_channels + group * g.filters_per_group + filter)[:, None] * alpha
    tl.store(result + out + column[None, :], total, mask=filter_exists[:, None] & (column < alpha)[None, :])
