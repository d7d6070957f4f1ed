"""The way back of the gradients of every patch's mean and deviation: the same for all values under the patch.

Maps over positions lie as ``(groups, positions, images)``, like the statistics themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from xcnorm.ops.triton import configurations
from xcnorm.ops.triton.geometry import (
    SIDE,
    Geometry,
    both_orders,
    both_orders_grid,
    kernel,
    mirrored,
    place,
    reaching,
    row_blocks,
    some,
)
from xcnorm.ops.triton.robust import bend

_TILE = 4096  # values of a program's tile


class Shares(NamedTuple):
    """What a patch hands every value under it, through its mean and deviation: ``constant + slope * value``.

    Both ``(groups, positions, images)``.
    """

    constant: Tensor
    slope: Tensor


def plain_shares(
    grad_norm: Tensor,
    norm: Tensor,
    grad_deviation: Tensor | None,
    grad_physical: Tensor | None,
    mean: Tensor,
    deviation: Tensor,
    alpha: int,
) -> Shares:
    """The shares of NCC, from the gradients of its divisor ``(N, positions, groups)`` and of the deviation.

    ``grad_physical`` is that of the physical norm, which is a multiple of the deviation.
    """
    constant, slope = (torch.empty_like(mean) for _ in range(2))
    groups, positions, images = mean.shape
    if mean.numel():
        _plain_share[both_orders_grid(images, positions, groups)](
            grad_norm, norm, grad_deviation, grad_physical, mean, deviation, constant, slope,
            groups, positions, images, alpha, alpha**0.5, SIDE=SIDE,
        )  # fmt: skip
    return Shares(constant, slope)


def pulls(
    grad_norm: Tensor,
    grad_physical: Tensor | None,
    norm: Tensor,
    deviation: Tensor,
    c: Tensor,
    *,
    per_patch: bool,
    of_scale: bool,
) -> tuple[Tensor, Tensor | None]:
    """Twice the gradient of each patch's energy, from those of its root and of the physical norm.

    Args:
        grad_norm: Gradient of the root, ``(N, positions, groups)``.
        grad_physical: That of the physical norm, which is the root times the scale; None for none.
        norm: The root.
        deviation: Of every patch, ``(groups, positions, images)``.
        c: Scale of the robust function.
        per_patch: Whether c is a multiple of the patch's deviation.
        of_scale: Whether the gradient of the scale is wanted.

    Returns:
        It, ``(groups, positions, images)``; and what the physical norm adds to the gradient of the scale, if it is
        wanted and there is any.
    """
    pull = torch.empty_like(deviation)
    direct = torch.empty_like(deviation) if of_scale and grad_physical is not None else None
    groups, positions, images = deviation.shape
    if deviation.numel():
        _pulls[both_orders_grid(images, positions, groups)](
            grad_norm, grad_physical, norm, deviation, c, pull, direct, groups, positions, images,
            PER_PATCH=per_patch, SIDE=SIDE,
        )  # fmt: skip
    return pull, direct


def robust_shares(
    sums: Tensor,
    pull: Tensor,
    direct: Tensor | None,
    grad_deviation: Tensor | None,
    mean: Tensor,
    deviation: Tensor,
    c: Tensor,
    alpha: int,
    *,
    robust: str,
    per_patch: bool,
    eps: float,
    of_c: bool,
) -> tuple[Shares, Tensor | None]:
    """The shares of robust NCC; and for each patch its part of the gradient of c, if that is wanted."""
    constant, slope = (torch.empty_like(mean) for _ in range(2))
    each_c = torch.empty_like(mean) if of_c else None
    block = 256
    if mean.numel():
        _robust_share[(triton.cdiv(mean.numel(), block),)](
            sums, pull, direct, grad_deviation, mean, deviation, c, constant, slope, each_c, eps, mean.numel(), alpha,
            sums.shape[1], ROBUST=robust, PER_PATCH=per_patch, BLOCK=block,
        )  # fmt: skip
    return Shares(constant, slope), each_c


@triton.jit
def _put_shares(constant, slope, at, there, to_mean, to_deviation, centre, spread, alpha):
    """Gradients of a patch's mean and deviation, as what they hand every value."""
    to_variance = to_deviation / (2 * spread)
    tl.store(slope + at, 2 * to_variance / alpha, mask=there)
    tl.store(constant + at, (to_mean - 2 * to_variance * centre) / alpha, mask=there)


@kernel
def _plain_share(
    grad_norm, norm, grad_deviation, grad_physical, mean, deviation, constant, slope,
    groups, positions, images, alpha, root_alpha, SIDE: tl.constexpr,
):  # fmt: skip
    _, _, by_image, at, there = both_orders(images, positions, groups, SIDE)
    root = tl.load(norm + by_image, mask=there, other=1)
    from_norm = tl.load(grad_norm + by_image, mask=there, other=0)
    centre = tl.load(mean + at, mask=there, other=0)
    spread = tl.load(deviation + at, mask=there, other=1)
    # The divisor is a multiple of the deviation; or the patch was divided by it, and this is minus its gradient along
    # itself, over the divisor.
    to_deviation = from_norm * root / spread
    if grad_deviation is not None:
        to_deviation += tl.load(grad_deviation + at, mask=there, other=0)
    if grad_physical is not None:
        to_deviation += tl.load(grad_physical + by_image, mask=there, other=0) * root_alpha
    _put_shares(constant, slope, at, there, 0 * centre, to_deviation, centre, spread, alpha)


@kernel
def _pulls(
    grad_norm, grad_physical, norm, deviation, c, pull, direct, groups, positions, images,
    PER_PATCH: tl.constexpr, SIDE: tl.constexpr,
):  # fmt: skip
    _, _, by_image, at, there = both_orders(images, positions, groups, SIDE)
    root = tl.load(norm + by_image, mask=there, other=1)
    gradient = tl.load(grad_norm + by_image, mask=there, other=0)
    if grad_physical is not None:
        physical = tl.load(grad_physical + by_image, mask=there, other=0)
        scale = tl.load(c)
        if PER_PATCH:
            scale = scale * tl.load(deviation + at, mask=there, other=1)
        gradient += physical * scale
        if direct is not None:
            tl.store(direct + at, physical * root, mask=there)
    tl.store(pull + at, gradient / root, mask=there)


@kernel
def _robust_share(
    sums, pull, direct, grad_deviation, mean, deviation, c, constant, slope, each_c, eps, patches, alpha, parts,
    ROBUST: tl.constexpr, PER_PATCH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    all_patches = tl.cast(patches, tl.int64)
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = at < all_patches
    centre = tl.load(mean + at, mask=there, other=0)
    spread = tl.load(deviation + at, mask=there, other=1)
    drawn = tl.load(pull + at, mask=there, other=0)
    shift = tl.zeros((BLOCK,), tl.float32)
    stretch = tl.zeros((BLOCK,), tl.float32)
    for part in tl.range(parts, loop_unroll_factor=8):
        shift += tl.load(sums + part * all_patches + at, mask=there, other=0)
        stretch += tl.load(sums + (parts + part) * all_patches + at, mask=there, other=0)
    factor = tl.load(c)
    scale = factor * spread if PER_PATCH else factor + 0 * spread
    rate = 1 / scale
    floor, floor_slope = bend(tl.minimum(rate, 0.5), ROBUST, True)
    to_floor = tl.where(rate < 0.5, drawn * alpha * eps * floor * floor_slope * rate * rate, 0)
    to_scale = -stretch * rate - to_floor
    if direct is not None:
        to_scale += tl.load(direct + at, mask=there, other=0)
    to_deviation = tl.zeros((BLOCK,), tl.float32)
    if grad_deviation is not None:
        to_deviation += tl.load(grad_deviation + at, mask=there, other=0)
    if PER_PATCH:
        to_deviation += factor * to_scale
    if each_c is not None:
        tl.store(each_c + at, spread * to_scale if PER_PATCH else to_scale, mask=there)
    _put_shares(constant, slope, at, there, -rate * shift, to_deviation, centre, spread, alpha)


@triton.jit
def gather_shares(
    constant, slope, image, y, x, group, images, height, width, out_height, out_width,
    kernel_height, kernel_width, stride_height, stride_width, dilation_height, dilation_width,
    top, bottom, left, right, PADDING: tl.constexpr, ROWS: tl.constexpr, POSITION_MAJOR: tl.constexpr,
):  # fmt: skip
    """The sum of the shares of all patches that read a pixel, for a vector of pixels of one group."""
    base = group.to(tl.int64) * out_height * out_width * images + image
    all_constant = tl.zeros((ROWS,), tl.float32)
    all_slope = tl.zeros((ROWS,), tl.float32)
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
                    for step in tl.range(count_y * count_x, loop_unroll_factor=3):
                        out_y = padded_y - (first_y + step // count_x * step_y) * dilation_height
                        out_x = padded_x - (first_x + step % count_x * step_x) * dilation_width
                        used = is_y & is_x & (out_y >= 0) & (out_x >= 0)
                        used &= (out_y % stride_height == 0) & (out_x % stride_width == 0)
                        out_y = out_y // stride_height
                        out_x = out_x // stride_width
                        used &= (out_y < out_height) & (out_x < out_width)
                        at = base + (out_y * out_width + out_x) * images
                        all_constant += tl.load(constant + at, mask=used, other=0)
                        all_slope += tl.load(slope + at, mask=used, other=0)
    return all_constant, all_slope


def settle(
    result: Tensor, gradient: Tensor, input: Tensor, shares: Shares, g: Geometry, padding_mode: str, *, copied: bool
) -> None:
    """Add the shares of all patches to a gradient.

    Args:
        result: The gradient of the input ``(N, H, W, C)``, to be written.
        gradient: What is known of it; may be ``result`` itself, unless it is that of the padded copy.
        input: ``(N, H, W, C)``.
        shares: Of the patches.
        g: The geometry.
        padding_mode: How the input was padded.
        copied: Whether the gradient is that of the padded copy: what reached the padding goes back to its source.
    """
    if not g.images:
        return
    channels = min(triton.next_power_of_2(g.channels_per_group), 128)
    position_major = configurations.position_major(g)
    rows = max(1, _TILE // channels)
    if position_major:
        rows = min(rows, triton.next_power_of_2(g.images))
    blocks = row_blocks(g.images, g.height * g.width, rows, position_major)
    _settle[(blocks * triton.cdiv(g.channels_per_group, channels), g.groups)](
        result, gradient, input, shares.constant, shares.slope,
        g.images, g.height, g.width, g.channels, g.out_height, g.out_width,
        g.kernel_height, g.kernel_width, g.stride_height, g.stride_width, g.dilation_height, g.dilation_width,
        g.top, g.bottom, g.left, g.right, g.channels_per_group,
        PADDING=padding_mode, COPIED=copied, POSITION_MAJOR=position_major, ROWS=rows, CHANNELS=channels,
    )  # fmt: skip


@kernel
def _settle(
    result, gradient, input, share_constant, share_slope,
    images, height, width, channels, out_height, out_width,
    kernel_height, kernel_width, stride_height, stride_width, dilation_height, dilation_width,
    top, bottom, left, right, channels_per_group,
    PADDING: tl.constexpr, COPIED: tl.constexpr, POSITION_MAJOR: tl.constexpr,
    ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(1)
    channel_blocks = tl.cdiv(channels_per_group, CHANNELS)
    image, _, y, x, there = place(
        tl.program_id(0) // channel_blocks, images, height * width, width, ROWS, POSITION_MAJOR
    )
    channel = tl.program_id(0) % channel_blocks * CHANNELS + tl.arange(0, CHANNELS)
    mask = there[:, None] & (channel < channels_per_group)[None, :]
    base = ((image * height + y) * width + x) * channels + group * channels_per_group
    at = base[:, None] + channel[None, :]
    # Loads of the large tiles first: they are under way while the shares are gathered.
    values = tl.load(input + at, mask=mask, other=0)
    if COPIED:
        own = (image * (height + top + bottom) + y + top) * (width + left + right) + x + left
        own = (own * channels + group * channels_per_group)[:, None] + channel[None, :]
        total = tl.load(gradient + own, mask=mask, other=0).to(tl.float32)
    else:
        total = tl.load(gradient + at, mask=mask, other=0).to(tl.float32)
    constant, slope = gather_shares(
        share_constant, share_slope, image, y, x, group, images, height, width,
        out_height, out_width, kernel_height, kernel_width, stride_height, stride_width,
        dilation_height, dilation_width, top, bottom, left, right, PADDING, ROWS, POSITION_MAJOR,
    )  # fmt: skip
    if COPIED and PADDING != "zeros":
        for copy_y in range(1 + top + bottom):
            padded_y, is_y = mirrored(copy_y, y, height, top, PADDING)
            if some(is_y, POSITION_MAJOR):
                for copy_x in range(tl.where(copy_y == 0, 1, 0), 1 + left + right):  # not the pixel itself once more
                    padded_x, is_x = mirrored(copy_x, x, width, left, PADDING)
                    if some(is_x, POSITION_MAJOR):
                        copy = (image * (height + top + bottom) + padded_y) * (width + left + right) + padded_x
                        copy = (copy * channels + group * channels_per_group)[:, None] + channel[None, :]
                        read = there & is_y & is_x
                        total += tl.load(gradient + copy, mask=mask & read[:, None], other=0).to(tl.float32)
    total += constant[:, None] + slope[:, None] * values.to(tl.float32)
    tl.store(result + at, total.to(result.dtype.element_ty), mask=mask)
