"""Geometry of a correlation, and what else all its kernels know: which patches are their rows, what padding reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from xcnorm.functional import ROBUST_FUNCTIONS
from xcnorm.ops.spec import Correlation

SIDE: tl.constexpr = tl.constexpr(16)
"""Images, and positions, of a program that goes from one order of both to the other."""


class Geometry(NamedTuple):
    """The integers that all kernels share. Every kernel takes them as one argument.

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
    # Could be computed from those above; but a compiler that is given them sees what they are multiples of.
    channels_per_group: int
    filters_per_group: int

    @property
    def positions(self) -> int:
        """Of one image's output."""
        return self.out_height * self.out_width

    @property
    def taps(self) -> int:
        """Kernel offsets."""
        return self.kernel_height * self.kernel_width

    @property
    def alpha(self) -> int:
        """Values in a patch."""
        return self.taps * self.channels_per_group

    @property
    def position_major(self) -> bool:
        """Whether rows run through the images first; see `place`."""
        # One pixel's channels must fill a few sectors of a cache line, or jumping from image to image wastes the rest.
        return self.channels_per_group >= 16 and self.images >= 32

    def frame(self, *, padding: bool) -> tuple[int, int, int, int]:
        """Of the pixels that a kernel visits, with or without the padding: top, left, height and width."""
        if not padding:
            return 0, 0, self.height, self.width
        return self.top, self.left, self.height + self.top + self.bottom, self.width + self.left + self.right


class Problem(NamedTuple):
    """What is correlated, but for the data.

    Attributes:
        geometry: The integers.
        padding: How the input is padded, as in `Correlation.padding_mode`.
        robust: Name of the robust function; None for plain NCC.
        per_patch: Whether c is a multiple of the patch's deviation.
        eps: Floor on the variance of a patch.
        precision: Of the product of factors in some dtype: ``"ieee"``, ``"tf32"``, or ``"half"``, which is TF32 by
            other means: it asks for factors of 11 significant bits, and float16 has as many, runs twice as fast and,
            unlike TF32, along either axis of a tile; only its range is narrow. Filters and patches after a bounded phi
            have a range known beforehand, and gradients are brought to one by the largest of them: each with a power
            of two, taken out again afterwards, exactly. Or ``"convolution"``: that of torch's own.
    """

    geometry: Geometry
    padding: str
    robust: str | None
    per_patch: bool
    eps: float
    precision: str

    @property
    def constants(self) -> dict[str, Any]:
        """What kernels of the product are compiled for."""
        return {
            "PHI": kernel_of(self.robust), "PER_PATCH": self.per_patch, "PADDING": self.padding,
            "PRECISION": self.precision,
        }  # fmt: skip


class Sides(NamedTuple):
    """The data of both sides of a product.

    Attributes:
        input: ``(N, H, W, C)``.
        filters: ``(C_out, taps, C_in / groups)``, in their unit; raw in a dense layer.
        moments: Mean and inverse norm of each filter, ``(2, C_out)``, if they are raw; None if they are normalised.
        mean: Of every patch, ``(groups, positions, images)``: rows that share a position read them at once.
        deviation: The same.
        c: Scale of the robust function, one number; None without one.
    """

    input: Tensor
    filters: Tensor
    moments: Tensor | None
    mean: Tensor
    deviation: Tensor
    c: Tensor | None


def geometry(shape: tuple[int, ...], out_channels: int, correlation: Correlation) -> Geometry:
    """The geometry of a correlation on an input ``(N, C, H, W)``, ``(N, C, L)`` or ``(N, C)``."""
    ones = (1,) * (2 - len(correlation.kernel))
    left, right, top, bottom = (*correlation.padding, *(0,) * (4 - len(correlation.padding)))
    numbers = (
        shape[0], *ones, *shape[2:], shape[1], *ones, *correlation.outputs(shape[2:]), out_channels, correlation.groups,
        *ones, *correlation.kernel, *ones, *correlation.stride, *ones, *correlation.dilation,
        top, bottom, left, right, shape[1] // correlation.groups, out_channels // correlation.groups,
    )  # fmt: skip
    return Geometry(*numbers)  # not by `_make`, which torch 2.11's compiler cannot trace


_compiled: dict[Callable[..., Any], Any] = {}


def kernel_of(robust: str | None) -> Any:
    """The kernel form of a robust function, for `apply_phi`; None without one."""
    if robust is None:
        return None
    function = ROBUST_FUNCTIONS[robust].kernel
    assert function is not None, robust
    if function not in _compiled:
        # The module it is from can do without Triton, so it has not imported its language.
        function.__globals__.setdefault("tl", tl)
        _compiled[function] = triton.jit(function)
    return _compiled[function]


def both_orders_grid(g: Geometry) -> tuple[int, int]:
    """Of kernels that have a tile of images by positions: what lies image by image meets what lies by positions."""
    return triton.cdiv(g.images, SIDE.value) * triton.cdiv(g.positions, SIDE.value), g.groups


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
        Image and position of each row, the position's two coordinates, and whether the row exists; one that does not
        repeats the last one.
    """
    if POSITION_MAJOR:
        blocks = tl.cdiv(images, ROWS)
        position = block // blocks
        image = block % blocks * ROWS + tl.arange(0, ROWS)
        exists = image < images
        image = tl.minimum(image, images - 1)
    else:
        row = block * ROWS + tl.arange(0, ROWS)
        exists = row < images * positions
        row = tl.minimum(row, images * positions - 1)
        image = row // positions
        position = row % positions
    return image.to(tl.int64), position, position // width, position % width, exists


@triton.jit
def both_orders(g):
    """A tile of images by positions: both, where it lies image by image and position by position, and what exists."""
    positions = g.out_height * g.out_width
    blocks = tl.cdiv(positions, SIDE)
    group = tl.program_id(1)
    image = (tl.program_id(0) // blocks * SIDE + tl.arange(0, SIDE)).to(tl.int64)[:, None]
    position = (tl.program_id(0) % blocks * SIDE + tl.arange(0, SIDE))[None, :]
    by_image = (image * positions + position) * g.groups + group
    by_position = (group.to(tl.int64) * positions + position) * g.images + image
    return image, position, by_image, by_position, (image < g.images) & (position < positions)


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
