"""The patches that read a pixel: through which kernel offsets, and through which copies of it in the padding."""

from __future__ import annotations

import triton
import triton.language as tl

from xcnorm.ops.triton.geometry import source


@triton.jit
def padded_place(copy, at, size, before, PADDING: tl.constexpr):
    """One of the places of the padded axis that read a coordinate: first its own, then the padding, place by place.

    Returns:
        The place, for each coordinate, and whether it reads the coordinate.
    """
    ring = tl.where(copy <= before, copy - 1, size + copy - 1)
    read, _ = source(ring - before, size, PADDING)
    own = copy == 0
    return tl.where(own, at + before, ring), own | (read == at)


@triton.jit
def reaching_offsets(padded, out_size, kernel, stride, dilation, ALIKE: tl.constexpr):
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
def any_of(condition, ALIKE: tl.constexpr):
    """Whether a condition holds anywhere."""
    if ALIKE:  # noqa: SIM108 -- a conditional expression would compile both sides
        answer = condition
    else:
        answer = tl.max(condition.to(tl.int32)) > 0
    return answer


@triton.jit
def gather(constant, slope, image, y, x, group, g, PADDING: tl.constexpr, ROWS: tl.constexpr, ALIKE: tl.constexpr):
    """Sums of two maps ``(groups, positions, images)`` over all patches that read a pixel, for a vector of pixels."""
    base = group.to(tl.int64) * g.out_height * g.out_width * g.images + image
    all_constant = tl.zeros((ROWS,), tl.float32)
    all_slope = tl.zeros((ROWS,), tl.float32)
    copies_y = 1 if PADDING == "zeros" else 1 + g.top + g.bottom
    copies_x = 1 if PADDING == "zeros" else 1 + g.left + g.right
    for copy_y in range(copies_y):
        padded_y, is_y = padded_place(copy_y, y, g.height, g.top, PADDING)
        if any_of(is_y, ALIKE):
            first_y, step_y, count_y = reaching_offsets(
                padded_y, g.out_height, g.kernel_height, g.stride_height, g.dilation_height, ALIKE
            )
            for copy_x in range(copies_x):
                padded_x, is_x = padded_place(copy_x, x, g.width, g.left, PADDING)
                if any_of(is_x, ALIKE):
                    first_x, step_x, count_x = reaching_offsets(
                        padded_x, g.out_width, g.kernel_width, g.stride_width, g.dilation_width, ALIKE
                    )
                    for step in tl.range(count_y * count_x, loop_unroll_factor=3):
                        out_y = padded_y - (first_y + step // count_x * step_y) * g.dilation_height
                        out_x = padded_x - (first_x + step % count_x * step_x) * g.dilation_width
                        position, used = patch_at(out_y, out_x, is_y & is_x, g)
                        at = base + position * g.images
                        all_constant += tl.load(constant + at, mask=used, other=0)
                        all_slope += tl.load(slope + at, mask=used, other=0)
    return all_constant, all_slope


@triton.jit
def patch_at(y, x, used, g):
    """The patch that begins at a place of the padded map, and whether there is one where it is asked for."""
    used = used & (y >= 0) & (x >= 0)
    used &= (y % g.stride_height == 0) & (x % g.stride_width == 0)
    y = y // g.stride_height
    x = x // g.stride_width
    used &= (y < g.out_height) & (x < g.out_width)
    return y * g.out_width + x, used
