"""The product of patches and filters: patches are cut out, centred and put through phi in the tile just loaded."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from xcnorm.ops.triton.autotune import Block, power_of_two, scattered, tuned
from xcnorm.ops.triton.geometry import Geometry, Problem, Sides, place, row_blocks, source

PATCH_UNIT: tl.constexpr = tl.constexpr(2.0**14)
"""What patches after phi, at most 1, are multiplied by as float16."""

FILTER_UNIT: tl.constexpr = tl.constexpr(2.0**10)
"""The same for filters of unit norm."""


def multiply_patches(sides: Sides, p: Problem, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor | None]:
    """Numerator and divisor of the similarity.

    Returns:
        ``(N, positions, C_out)`` in ``dtype`` and ``(N, positions, groups)`` in float32; with a robust function also
        the norm of the patches after phi, which is the divisor times their scale. Without one the patch is divided by
        its deviation, so that float16 can hold the product.
    """
    g, input = p.geometry, sides.input
    product = input.new_empty((g.images, g.positions, g.out_channels), dtype=dtype)
    divisor = input.new_empty((g.images, g.positions, g.groups), dtype=torch.float32)
    norm = torch.empty_like(divisor) if p.robust else None
    if not g.images:
        return product, divisor, norm

    def run(block: Block) -> None:
        rows = row_blocks(g.images, g.positions, block.rows, block.position_major)
        _multiply_patches[(rows * triton.cdiv(g.filters_per_group, block.columns), g.groups)](
            *sides, product, divisor, norm, p.eps, g, **p.constants, ONE_TAP=g.channels_per_group % block.depth == 0,
            **block.constants,
        )  # fmt: skip

    run(tuned("forward", _block(g, dtype, input.dtype), p, (dtype, input.dtype, sides.moments is None), run))
    return product, divisor, norm


def _block(g: Geometry, dtype: torch.dtype, input: torch.dtype) -> Block:
    """The block to start with, by the dtypes of product and input: rows are patches, columns filters."""
    columns = power_of_two(g.filters_per_group, 16, 128)
    short = dtype == torch.float32 and (columns < 128 or g.taps == 1)
    # A step within one kernel offset where channels allow it: its addresses are then simple, its loads wide.
    fits = (size for size in (32 if short else 64, 32, 16) if g.channels_per_group % size == 0)
    depth = next(fits, power_of_two(g.alpha, 16, 32))
    registers = 128 if columns < 128 else 168 if g.taps == 1 else None
    return Block(64, columns, depth, 4, 1 if scattered(g, input) else 3, g.position_major, registers)


@triton.jit
def _multiply_patches(
    input, filters, moments, patch_mean, patch_deviation, c, product, divisor, norm, eps, g,
    PHI: tl.constexpr, PER_PATCH: tl.constexpr, PADDING: tl.constexpr, PRECISION: tl.constexpr, ONE_TAP: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, POSITION_MAJOR: tl.constexpr,
):  # fmt: skip
    """One block of rows (patches) by columns (filters); the sum runs over kernel offsets, then channels."""
    EXACT: tl.constexpr = PRECISION == "ieee" and product.dtype.element_ty == tl.float32
    DOT: tl.constexpr = "ieee" if PRECISION == "half" else PRECISION
    positions = g.out_height * g.out_width
    column_blocks = tl.cdiv(g.filters_per_group, COLUMNS)
    column_block = tl.program_id(0) % column_blocks
    group = tl.program_id(1)
    alpha = g.kernel_height * g.kernel_width * g.channels_per_group

    image, position, y, x, exists = place(
        tl.program_id(0) // column_blocks, g.images, positions, g.out_width, ROWS, POSITION_MAJOR
    )
    y = y * g.stride_height - g.top
    x = x * g.stride_width - g.left
    base = input + image * g.height * g.width * g.channels + group * g.channels_per_group
    at = (group.to(tl.int64) * positions + position) * g.images + image
    mean = tl.load(patch_mean + at)
    scale = tl.load(patch_deviation + at)
    if PHI is not None:
        scale = tl.load(c) * scale if PER_PATCH else tl.load(c) + 0 * scale
    rate = 1 / scale

    filter = column_block * COLUMNS + tl.arange(0, COLUMNS)
    filter_exists = filter < g.filters_per_group
    filter_base = filters + (group.to(tl.int64) * g.filters_per_group + filter) * alpha
    deep = tl.arange(0, DEPTH)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    energy = tl.zeros((ROWS, DEPTH), tl.float32)
    patch_sum = tl.zeros((ROWS, DEPTH), tl.float32)
    # Counters instead of divisions, which would cost as much as the tile's arithmetic.
    first, tap_y, tap_x = 0, 0, 0
    for start in range(0, alpha, DEPTH):
        if ONE_TAP:
            # The compiler does not see that a step's first channel is a multiple of its depth.
            channel = tl.multiple_of(first, DEPTH) + deep
            offset_y = tap_y * g.dilation_height
            offset_x = tap_x * g.dilation_width
            first += DEPTH
            last = first == g.channels_per_group
            first = tl.where(last, 0, first)
            tap_x = tl.where(last, tap_x + 1, tap_x)
            last = tap_x == g.kernel_width
            tap_x = tl.where(last, 0, tap_x)
            tap_y = tl.where(last, tap_y + 1, tap_y)
        else:
            channel = (start + deep) % g.channels_per_group
            tap = (start + deep) // g.channels_per_group
            offset_y = tap // g.kernel_width * g.dilation_height
            offset_x = tap % g.kernel_width * g.dilation_width
        tile = read_patches(
            base, y, x, offset_y, offset_x, channel, start + deep < alpha, g, PADDING, ONE_TAP, POSITION_MAJOR, 1
        )
        h, _ = apply_phi(standardise(tile, mean, rate, EXACT), PHI, EXACT)
        if not ONE_TAP:
            h = tl.where((start + deep < alpha)[None, :], h, 0)
        if PHI is not None:
            energy += h * h
        filter_mask = filter_exists[None, :]
        if not ONE_TAP:
            filter_mask = filter_mask & (start + deep < alpha)[:, None]
        filter_tile = tl.load(filter_base[None, :] + (start + deep)[:, None], mask=filter_mask, other=0)
        if moments is not None:
            patch_sum += h
            filter_tile = as_factor(filter_tile, product.dtype.element_ty, 1.0, PRECISION)
        factor = as_factor(h, product.dtype.element_ty, PATCH_UNIT, PRECISION)
        total = tl.dot(factor, filter_tile, total, input_precision=DOT)
    if PRECISION == "half":
        total *= 1 / (PATCH_UNIT * FILTER_UNIT)

    if moments is not None:
        # <h, (w - mean) scale> from <h, w>: the weight's half of the normalisation, without a copy of the weight.
        at_moments = moments + group * g.filters_per_group + filter
        filter_mean = tl.load(at_moments, mask=filter_exists, other=0)
        filter_scale = tl.load(at_moments + g.out_channels, mask=filter_exists, other=0)
        total = (total - tl.sum(patch_sum, 1)[:, None] * filter_mean[None, :]) * filter_scale[None, :]
    out = product + (image * positions + position)[:, None] * g.out_channels
    out = out + group * g.filters_per_group + filter[None, :]
    tl.store(out, total.to(product.dtype.element_ty), mask=exists[:, None] & filter_exists[None, :])
    if column_block == 0:
        squares = tl.zeros((ROWS,), tl.float32) + alpha
        if PHI is not None:
            at_floor, _ = apply_phi(tl.minimum(rate, 0.5), PHI, True)
            squares = tl.sum(energy, 1) + alpha * eps * at_floor * at_floor
        at = (image * positions + position) * g.groups + group
        tl.store(divisor + at, tl.sqrt(squares), mask=exists)
        if norm is not None:
            tl.store(norm + at, tl.sqrt(squares) / rate, mask=exists)


@triton.jit
def read_patches(
    base, y, x, offset_y, offset_x, channel, within_patch, g,
    PADDING: tl.constexpr, ONE_TAP: tl.constexpr, POSITION_MAJOR: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """A tile of values of patches: a patch in each row, a kernel offset and a channel in each column.

    Args:
        base: Where each row's image lies.
        y: Row of the input at which each patch begins; one for all if ``POSITION_MAJOR``.
        x: Column of the input, likewise.
        offset_y: Rows to go on from there, for each column; one for all if ``ONE_TAP``.
        offset_x: Columns to go on, likewise.
        channel: Of each column.
        within_patch: Whether a column exists, as they all do if ``ONE_TAP``.
        g: The geometry.
        PADDING: How the input is padded.
        ONE_TAP: Whether all columns have the same kernel offset.
        POSITION_MAJOR: As in `place`.
        VECTOR: Columns that lie side by side, from a multiple of that number on.
    """
    if ONE_TAP or POSITION_MAJOR:
        row_at, row_in = source(y + offset_y, g.height, PADDING)
        col_at, col_in = source(x + offset_x, g.width, PADDING)
        pixel = (row_at * g.width + col_at) * g.channels
        inside = row_in & col_in
    if POSITION_MAJOR:
        pixel += channel
        if not ONE_TAP:
            pixel = tl.max_contiguous(tl.multiple_of(pixel, VECTOR), VECTOR)
            inside = (inside & within_patch)[None, :]
        addresses = base[:, None] + pixel[None, :]
    elif ONE_TAP:
        addresses = (base + pixel)[:, None] + channel[None, :]
        inside = inside[:, None]
    else:
        row_at, row_in = source(y[:, None] + offset_y[None, :], g.height, PADDING)
        col_at, col_in = source(x[:, None] + offset_x[None, :], g.width, PADDING)
        addresses = base[:, None] + (row_at * g.width + col_at) * g.channels + channel[None, :]
        inside = row_in & col_in & within_patch[None, :]
    return tl.load(addresses, mask=inside, other=0)


@triton.jit
def standardise(values, mean, rate, EXACT: tl.constexpr):
    """``(values - mean) * rate``, row by row; in one instruction where the product rounds more than that costs."""
    if EXACT:
        t = (values.to(tl.float32) - mean[:, None]) * rate[:, None]
    else:
        t = values.to(tl.float32) * rate[:, None] - (mean * rate)[:, None]
    return t


@triton.jit
def apply_phi(t, PHI: tl.constexpr, EXACT: tl.constexpr):
    """``h(t)`` and its slope ``h'(t)``; what the caller does not use costs nothing."""
    if PHI is None:
        h = t
        slope = tl.full(t.shape, 1.0, tl.float32)
    else:
        h, slope = PHI(t, EXACT)
    return h, slope


@triton.jit
def as_factor(values, dtype, unit, PRECISION: tl.constexpr):
    """A tile as the matrix units take it: as float16 in a unit of its own, as TF32, or in a dtype."""
    if PRECISION == "half":
        factor = (values * unit).to(tl.float16)
    elif PRECISION == "tf32":
        # The matrix units cut float32 off after 10 bits; rounding first halves the error and leaves no bias.
        bits = values.to(tl.float32).to(tl.int32, bitcast=True)
        factor = ((bits + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
    else:
        factor = values.to(dtype)
    return factor
