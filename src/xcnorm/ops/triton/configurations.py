"""Block sizes of the matrix products, by shape: what measured best on an H200, in bfloat16 and in TF32."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton

from xcnorm.ops.triton.geometry import Geometry, row_blocks

_PROCESSORS = 132  # of an H100 or H200; others only lose a little by it


class Block(NamedTuple):
    """The part of a matrix product that one program computes, and how.

    Attributes:
        rows: Of the result.
        columns: Of the result.
        depth: Of the sum, in one step.
        warps: That share the work.
        stages: Steps whose loads are under way at a time.
        position_major: Whether a block's rows are one position in many images.
        registers: That a thread may use; None leaves it to the compiler.
    """

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    position_major: bool
    registers: int | None = None


def forward(g: Geometry, dtype: torch.dtype, input: torch.dtype) -> Block:
    """For the correlation itself, by the dtypes of product and input: rows are patches, columns filters."""
    columns = _power(g.filters_per_group, 16, 128)
    short = dtype == torch.float32 and (columns < 128 or g.taps == 1)
    registers = 128 if columns < 128 else 168 if g.taps == 1 else None
    stages = 1 if _scattered(g, input) else 3
    return Block(64, columns, _depth(g, 32 if short else 64), 4, stages, position_major(g), registers)


def input_gradient(g: Geometry, dtype: torch.dtype) -> Block:
    """For the gradient of the input: rows are pixels, columns channels."""
    wide = dtype == torch.float32 and g.channels_per_group % 128 == 0 and g.taps > 1
    columns = _power(g.channels_per_group, 16, 128 if wide else 64)
    depth = _power(g.filters_per_group, 16, 64)
    stages = 2 if dtype == torch.float32 and not wide else 3
    return Block(64, columns, depth, 4, stages, position_major(g), None if wide else 168)


def weight_gradient(g: Geometry, dtype: torch.dtype, input: torch.dtype) -> tuple[Block, int]:
    """For the gradient of the filters: rows are filters, columns values of a patch; and in how many parts."""
    single = dtype == torch.float32
    rows = _power(g.filters_per_group, 16, 128)
    wide = rows == 128 and g.channels_per_group % 128 == 0 and (single or g.images >= 128)
    fits = (size for size in (128 if wide else 64, 32) if g.channels_per_group % size == 0)
    columns = next(fits, _power(g.alpha, 16, 64))
    scattered = _scattered(g, input)
    depth = 32 if single and not scattered else 128 if not single and rows < 128 and g.images >= 128 else 64
    blocks = triton.cdiv(g.filters_per_group, rows) * triton.cdiv(g.alpha, columns) * g.groups
    steps = row_blocks(g.images, g.positions, depth, position_major(g))
    # Programs on a multiprocessor at a time.
    resident = 2 if wide else 4 if single and rows < 128 and not scattered else 3
    parts = max(1, min(resident * _PROCESSORS // blocks, steps // 8))
    stages = 1 if scattered else 2 if depth == 128 or (wide and not single) else 3
    return Block(rows, columns, depth, 8 if wide else 4, stages, position_major(g), 128 if wide else None), parts


def _scattered(g: Geometry, input: torch.dtype) -> bool:
    """Whether a patch is gathered value by value, from float32 maps of a few channels.

    The compiler would send every single value of 4 bytes through shared memory, stages ahead, in more instructions than
    the loads themselves take; shorter values it cannot send and loads as they are needed.
    """
    return input == torch.float32 and g.channels_per_group < 16


def _power(size: int, low: int, high: int) -> int:
    return max(low, min(high, triton.next_power_of_2(size)))


def _depth(g: Geometry, largest: int) -> int:
    """A step within one kernel offset where channels allow it: its addresses are then simple, its loads wide."""
    return next((size for size in (largest, 32, 16) if g.channels_per_group % size == 0), _power(g.alpha, 16, 32))


def position_major(g: Geometry) -> bool:
    """Whether rows walk through the images first."""
    # One pixel's channels must fill a few sectors of a cache line, or jumping from image to image wastes the rest.
    return g.channels_per_group >= 16 and g.images >= 32
