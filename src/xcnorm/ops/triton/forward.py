"""The correlation as an implicit matrix product: patches are centred, scaled and bent in the tile just loaded."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from xcnorm.ops.triton import configurations
from xcnorm.ops.triton.autotune import tuned
from xcnorm.ops.triton.geometry import Geometry, kernel, place, row_blocks, source
from xcnorm.ops.triton.precision import FILTER_UNIT, PATCH_UNIT, operand
from xcnorm.ops.triton.robust import bend, standardise


def correlate(
    input: Tensor,
    filters: Tensor,
    moments: Tensor | None,
    mean: Tensor,
    deviation: Tensor,
    c: Tensor | None,
    g: Geometry,
    *,
    padding_mode: str,
    robust: str | None,
    per_patch: bool,
    eps: float,
    dtype: torch.dtype,
    precision: str,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Numerator and divisor of the similarity.

    Args:
        input: ``(N, H, W, C)``.
        filters: ``(C_out, taps, C_in / groups)``.
        moments: Mean and inverse norm of each filter, ``(2, C_out)``, if they are raw; None if they are normalised.
        mean: Of every patch, ``(groups, positions, images)``.
        deviation: The same.
        c: Scale of the robust function, one number; None without one.
        g: The geometry.
        padding_mode: How the input is padded.
        robust: Name of the robust function.
        per_patch: Whether c is a multiple of the patch's deviation.
        eps: Floor on the variance of a patch.
        dtype: Of the result.
        precision: Of the product.

    Returns:
        ``(N, positions, C_out)`` in ``dtype`` and ``(N, positions, groups)`` in float32; with a robust function also
        the physical norm of the bent patches, which is the divisor times their scale. Without one the patch is divided
        by its deviation, so that float16 can hold the product.
    """
    product = input.new_empty((g.images, g.positions, g.out_channels), dtype=dtype)
    norm = input.new_empty((g.images, g.positions, g.groups), dtype=torch.float32)
    physical = torch.empty_like(norm) if robust else None
    if not g.images:
        return product, norm, physical

    def run(block: configurations.Block) -> None:
        rows = row_blocks(g.images, g.positions, block.rows, block.position_major)
        grid = (rows * triton.cdiv(g.filters_per_group, block.columns), g.groups)
        _correlate[grid](
            input, filters, mean if moments is None else moments, mean, deviation, mean if c is None else c,
            product, norm, physical, eps,
            g.images, g.height, g.width, g.channels, g.out_height, g.out_width, g.out_channels, g.groups,
            g.kernel_height, g.kernel_width, g.stride_height, g.stride_width, g.dilation_height, g.dilation_width,
            g.top, g.left, g.channels_per_group, g.filters_per_group,
            ROBUST=robust or "none", PER_PATCH=per_patch, PADDING=padding_mode, PRECISION=precision,
            RAW=moments is not None, POSITION_MAJOR=block.position_major,
            TAPPED=g.channels_per_group % block.depth == 0,
            ROWS=block.rows, COLUMNS=block.columns, DEPTH=block.depth,
            num_warps=block.warps, num_stages=block.stages, maxnreg=block.registers,
        )  # fmt: skip

    options = (dtype, input.dtype, precision, padding_mode, robust, per_patch, moments is None)
    run(tuned("forward", configurations.forward(g, dtype, input.dtype), g, options, run))
    return product, norm, physical


@kernel
def _correlate(
    input, filters, moments, mean, deviation, c, product, norm, physical, eps,
    images, height, width, channels, out_height, out_width, out_channels, groups,
    kernel_height, kernel_width, stride_height, stride_width, dilation_height, dilation_width,
    top, left, channels_per_group, filters_per_group,
    ROBUST: tl.constexpr, PER_PATCH: tl.constexpr, PADDING: tl.constexpr, PRECISION: tl.constexpr,
    RAW: tl.constexpr, POSITION_MAJOR: tl.constexpr, TAPPED: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """One block of rows (patches) by columns (filters); the sum runs over kernel offsets, then channels."""
    EXACT: tl.constexpr = PRECISION == "ieee" and product.dtype.element_ty == tl.float32
    DOT: tl.constexpr = "ieee" if PRECISION == "half" else PRECISION
    positions = out_height * out_width
    column_blocks = tl.cdiv(filters_per_group, COLUMNS)
    column_block = tl.program_id(0) % column_blocks
    group = tl.program_id(1)
    size = kernel_height * kernel_width * channels_per_group

    image, position, y, x, there = place(
        tl.program_id(0) // column_blocks, images, positions, out_width, ROWS, POSITION_MAJOR
    )
    y = y * stride_height - top
    x = x * stride_width - left
    base = input + image * height * width * channels + group * channels_per_group
    at = (group.to(tl.int64) * positions + position) * images + image
    centre = tl.load(mean + at)
    scale = tl.load(deviation + at)
    if ROBUST != "none":
        scale = tl.load(c) * scale if PER_PATCH else tl.load(c) + 0 * scale
    rate = 1 / scale

    filter = column_block * COLUMNS + tl.arange(0, COLUMNS)
    filter_there = filter < filters_per_group
    filter_base = filters + (group.to(tl.int64) * filters_per_group + filter) * size
    deep = tl.arange(0, DEPTH)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    energy = tl.zeros((ROWS, DEPTH), tl.float32)
    level = tl.zeros((ROWS, DEPTH), tl.float32)
    # Counters instead of divisions, which would cost as much as the tile's arithmetic.
    first, tap_y, tap_x = 0, 0, 0
    for start in range(0, size, DEPTH):
        if TAPPED:
            # The compiler does not see that a step's first channel is a multiple of its depth.
            channel = tl.multiple_of(first, DEPTH) + deep
            offset_y = tap_y * dilation_height
            offset_x = tap_x * dilation_width
            first += DEPTH
            last = first == channels_per_group
            first = tl.where(last, 0, first)
            tap_x = tl.where(last, tap_x + 1, tap_x)
            last = tap_x == kernel_width
            tap_x = tl.where(last, 0, tap_x)
            tap_y = tl.where(last, tap_y + 1, tap_y)
        else:
            channel = (start + deep) % channels_per_group
            tap = (start + deep) // channels_per_group
            offset_y = tap // kernel_width * dilation_height
            offset_x = tap % kernel_width * dilation_width
        if TAPPED or POSITION_MAJOR:
            row_at, row_in = source(y + offset_y, height, PADDING)
            col_at, col_in = source(x + offset_x, width, PADDING)
            within = (row_at * width + col_at) * channels
            inside = row_in & col_in
        if POSITION_MAJOR:
            addresses = base[:, None] + (within + channel)[None, :]
            if not TAPPED:
                inside = (inside & (start + deep < size))[None, :]
        elif TAPPED:
            addresses = (base + within)[:, None] + channel[None, :]
            inside = inside[:, None]
        else:
            row_at, row_in = source(y[:, None] + offset_y[None, :], height, PADDING)
            col_at, col_in = source(x[:, None] + offset_x[None, :], width, PADDING)
            addresses = base[:, None] + (row_at * width + col_at) * channels + channel[None, :]
            inside = row_in & col_in & (start + deep < size)[None, :]
        tile = tl.load(addresses, mask=inside, other=0)
        h, _ = bend(standardise(tile, centre, rate, EXACT), ROBUST, EXACT)
        if not TAPPED:
            h = tl.where((start + deep < size)[None, :], h, 0)
        if ROBUST != "none":
            energy += h * h
        filter_mask = filter_there[None, :]
        if not TAPPED:
            filter_mask = filter_mask & (start + deep < size)[:, None]
        filter_tile = tl.load(filter_base[None, :] + (start + deep)[:, None], mask=filter_mask, other=0)
        if RAW:
            level += h
            filter_tile = operand(filter_tile, product.dtype.element_ty, 1.0, PRECISION)
        factor = operand(h, product.dtype.element_ty, PATCH_UNIT, PRECISION)
        total = tl.dot(factor, filter_tile, total, input_precision=DOT)
    if PRECISION == "half":
        total *= 1 / (PATCH_UNIT * FILTER_UNIT)

    if RAW:
        # <h, (w - mean) scale> from <h, w>: the weight's half of the normalisation, without a copy of the weight.
        at_moments = moments + group * filters_per_group + filter
        filter_mean = tl.load(at_moments, mask=filter_there, other=0)
        filter_scale = tl.load(at_moments + out_channels, mask=filter_there, other=0)
        total = (total - tl.sum(level, 1)[:, None] * filter_mean[None, :]) * filter_scale[None, :]
    out = product + (image * positions + position)[:, None] * out_channels + group * filters_per_group + filter[None, :]
    tl.store(out, total.to(product.dtype.element_ty), mask=there[:, None] & filter_there[None, :])
    if column_block == 0:
        squares = tl.zeros((ROWS,), tl.float32) + size
        if ROBUST != "none":
            at_floor, _ = bend(tl.minimum(rate, 0.5), ROBUST, True)
            squares = tl.sum(energy, 1) + size * eps * at_floor * at_floor
        at = (image * positions + position) * groups + group
        tl.store(norm + at, tl.sqrt(squares), mask=there)
        if physical is not None:
            tl.store(physical + at, tl.sqrt(squares) / rate, mask=there)
