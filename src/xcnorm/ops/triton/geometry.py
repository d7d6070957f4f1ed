"""Where things lie: rows of a matrix product as positions, positions as pixels, padding by rule instead of by copy."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import triton
import triton.language as tl

from xcnorm.ops.correlation import Correlation

SIDE = 16
"""Images, and positions, of a program that goes from one order of both to the other."""


class Geometry(NamedTuple):
    """The integers that all kernels share, in the order in which they take them.

    A layer with one position axis has a height of 1; a dense layer is a convolution of one pixel.
    """

    images: int
    height: int
    width: int
    channels: int
    out_height: int
    out_width: int
    out_channels: int
    groups: int
    kernel_height: int
    kernel_width: int
    stride_height: int
    stride_width: int
    dilation_height: int
    dilation_width: int
    top: int
    bottom: int
    left: int
    right: int

    @property
    def positions(self) -> int:
        """Of one image's output."""
        return self.out_height * self.out_width

    @property
    def taps(self) -> int:
        """Kernel offsets."""
        return self.kernel_height * self.kernel_width

    @property
    def channels_per_group(self) -> int:
        """That one patch spans."""
        return self.channels // self.groups

    @property
    def filters_per_group(self) -> int:
        """That look at one group."""
        return self.out_channels // self.groups

    @property
    def alpha(self) -> int:
        """Values in a patch."""
        return self.taps * self.channels_per_group


def geometry(shape: tuple[int, ...], out_channels: int, spec: Correlation) -> Geometry:
    """The geometry of a correlation on an input ``(N, C, H, W)``, ``(N, C, L)`` or ``(N, C)``."""
    rank = len(spec.kernel)
    sizes = (*(1,) * (2 - rank), *shape[2:])
    padding = (*spec.padding, *(0,) * (4 - len(spec.padding)))
    left, right, top, bottom = padding
    kernel, stride, dilation = ((*(1,) * (2 - rank), *numbers) for numbers in (spec.kernel, spec.stride, spec.dilation))
    padded = (sizes[0] + top + bottom, sizes[1] + left + right)
    out = [(p - d * (k - 1) - 1) // s + 1 for p, k, s, d in zip(padded, kernel, stride, dilation, strict=True)]
    numbers = (shape[0], *sizes, shape[1], *out, out_channels, spec.groups, *kernel, *stride, *dilation)
    return Geometry._make((*numbers, top, bottom, left, right))


# Numbers that change from layer to layer and speed nothing up by being known: not worth compiling a kernel anew for.
_FREE = (
    "height", "width", "out_height", "out_width", "extent_height", "extent_width", "top", "bottom", "left", "right",
    "border_top", "border_left", "steps", "steps_of_part", "parts", "maxima_count", "patches", "positions",
)  # fmt: skip


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function of a geometry, once for all its sizes."""
    parameters = inspect.signature(function).parameters
    return triton.jit(function, do_not_specialize=[name for name in _FREE if name in parameters])


def both_orders_grid(images: int, positions: int, groups: int) -> tuple[int, int]:
    """Of kernels that have a tile of images by positions: what lies image by image meets what lies by positions."""
    return triton.cdiv(images, SIDE) * triton.cdiv(positions, SIDE), groups


def row_blocks(images: int, positions: int, rows: int, position_major: bool) -> int:
    """How many blocks `place` divides the rows into."""
    return positions * triton.cdiv(images, rows) if position_major else triton.cdiv(images * positions, rows)


@triton.jit
def place(block, images, positions, width, ROWS: tl.constexpr, POSITION_MAJOR: tl.constexpr):
    """What a block of rows of the matrix product stands for.

    A position-major block is one position in many images: whatever depends on position alone (padding, which kernel
    offsets reach it) is a scalar then, and no row does work that another row's padding asked for. Otherwise a block is
    a stretch of positions, and those are vectors.

    Returns:
        Image and position of each row, the position's two coordinates, and whether there is such a row; rows that are
        not there repeat the last one.
    """
    if POSITION_MAJOR:
        blocks = tl.cdiv(images, ROWS)
        position = block // blocks
        image = block % blocks * ROWS + tl.arange(0, ROWS)
        there = image < images
        image = tl.minimum(image, images - 1)
    else:
        row = block * ROWS + tl.arange(0, ROWS)
        there = row < images * positions
        row = tl.minimum(row, images * positions - 1)
        image = row // positions
        position = row % positions
    return image.to(tl.int64), position, position // width, position % width, there


@triton.jit
def both_orders(images, positions, groups, SIDE: tl.constexpr):
    """A tile of images by positions: both, where it lies image by image and position by position, and what exists."""
    blocks = tl.cdiv(positions, SIDE)
    group = tl.program_id(1)
    image = (tl.program_id(0) // blocks * SIDE + tl.arange(0, SIDE)).to(tl.int64)[:, None]
    position = (tl.program_id(0) % blocks * SIDE + tl.arange(0, SIDE))[None, :]
    by_image = (image * positions + position) * groups + group
    by_position = (group.to(tl.int64) * positions + position) * images + image
    return image, position, by_image, by_position, (image < images) & (position < positions)


@triton.jit
def source(at, size, PADDING: tl.constexpr):
    """The index that padding reads for a coordinate of the unpadded axis, and whether there is a value at all."""
    inside = at == at  # always true, and the compiler knows
    if PADDING == "zeros":
        inside = (at >= 0) & (at < size)
    elif PADDING == "replicate":
        at = tl.minimum(tl.maximum(at, 0), size - 1)
    elif PADDING == "reflect":
        at = tl.abs(at)
        at = size - 1 - tl.abs(size - 1 - at)
    else:
        tl.static_assert(PADDING == "circular", "unknown padding")
        at = tl.where(at < 0, at + size, tl.where(at >= size, at - size, at))
    return at, inside


@triton.jit
def mirrored(copy, at, size, before, PADDING: tl.constexpr):
    """One of the places of the padded axis that read a coordinate: first its own, then the padding, place by place.

    Returns:
        The place, for each coordinate, and whether it reads the coordinate.
    """
    ring = tl.where(copy <= before, copy - 1, size + copy - 1)
    read, _ = source(ring - before, size, PADDING)
    own = copy == 0
    return tl.where(own, at + before, ring), own | (read == at)


@triton.jit
def reaching(padded, out_size, kernel, stride, dilation, ALIKE: tl.constexpr):
    """The kernel offsets that can reach some of these places of the padded axis: first, step and count.

    Where all places are alike, one number, offsets that fall between strides are left out.
    """
    low = padded if ALIKE else tl.min(padded)
    high = padded if ALIKE else tl.max(padded)
    first = tl.maximum(0, tl.cdiv(low - (out_size - 1) * stride, dilation))
    last = tl.minimum(kernel - 1, high // dilation)
    step = 1
    if ALIKE:
        between = dilation == 1
        first += tl.where(between, (low - first) % stride, 0)
        step = tl.where(between, stride, 1)
    return first, step, tl.maximum(0, last - first + step) // step


@triton.jit
def some(condition, ALIKE: tl.constexpr):
    """Whether a condition holds anywhere."""
    if ALIKE:  # noqa: SIM108 -- a conditional expression would compile both sides
        answer = condition
    else:
        answer = tl.max(condition.to(tl.int32)) > 0
    return answer
