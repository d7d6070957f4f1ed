"""Mean and deviation of every patch, from one pass over the input, and the way back of their gradients.

The channels at a pixel are summed up once; a patch's statistics then come from the few pixels under it. Variances are
sums of squared differences throughout: the difference of two large squares would drown the texture beside an edge.

Maps over positions lie as ``(groups, positions, images)``: rows of a product that share a position read them at once.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from xcnorm.ops.triton import configurations
from xcnorm.ops.triton.geometry import Geometry, kernel, mirrored, place, reaching, row_blocks, some, source
from xcnorm.ops.triton.robust import bend

_TILE = 4096  # values of a program's tile


def patch_statistics(
    input: Tensor, g: Geometry, padding_mode: str, eps: float, *, copy: torch.dtype | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean, deviation and norm of every patch of ``(N, H, W, C)``, in float32.

    Args:
        input: ``(N, H, W, C)``.
        g: The geometry.
        padding_mode: How the input is padded.
        eps: Floor on the variance of a patch.
        copy: Dtype of a padded copy of the input, to be written along the way; None for none.

    Returns:
        Mean and deviation ``(groups, positions, images)``; the norm of the centred patch, ``(N, positions, groups)``;
        and the input, or its padded copy.
    """
    level, within = (input.new_empty((g.images, g.height, g.width, g.groups), dtype=torch.float32) for _ in range(2))
    mean, deviation = (input.new_empty((g.groups, g.positions, g.images), dtype=torch.float32) for _ in range(2))
    norm = input.new_empty((g.images, g.positions, g.groups), dtype=torch.float32)
    padded = _walk_pixels(input, level, within, g, padding_mode, copy)
    if g.images:
        block = (16, 16)
        _patches[(triton.cdiv(g.images, block[0]) * triton.cdiv(g.positions, block[1]), g.groups)](
            level, within, mean, deviation, norm, eps, g.alpha**0.5,
            g.images, g.height, g.width, g.out_height, g.out_width, g.groups, g.kernel_height, g.kernel_width,
            g.stride_height, g.stride_width, g.dilation_height, g.dilation_width, g.top, g.left,
            PADDING=padding_mode, IMAGES=block[0], POSITIONS=block[1],
        )  # fmt: skip
    return mean, deviation, norm, padded


def padded_copy(input: Tensor, g: Geometry, padding_mode: str, dtype: torch.dtype) -> Tensor:
    """``(N, H, W, C)`` with its padding."""
    return _walk_pixels(input, None, None, g, padding_mode, dtype)


def _walk_pixels(
    input: Tensor, level: Tensor | None, within: Tensor | None, g: Geometry, padding_mode: str, copy: torch.dtype | None
) -> Tensor:
    """Sum up the channels of every pixel, or copy the pixel to its places under the padding, or both at once."""
    border = (g.top, g.bottom, g.left, g.right) if copy else (0, 0, 0, 0)
    extent = (g.height + border[0] + border[1], g.width + border[2] + border[3])
    padded = input.new_empty((g.images, *extent, g.channels), dtype=copy) if copy else input
    if g.images:
        channels = min(triton.next_power_of_2(g.channels_per_group), 1024)
        block = max(1, _TILE // channels)
        _pixels[(triton.cdiv(g.images * extent[0] * extent[1], block), g.groups)](
            input, input if level is None else level, input if within is None else within, padded,
            g.images, g.height, g.width, g.channels, g.channels_per_group, g.groups, *extent, border[0], border[2],
            PADDING=padding_mode, COPY=copy is not None, SUM=level is not None,
            BLOCK=block, CHANNELS=channels, ONCE=channels >= g.channels_per_group,
        )  # fmt: skip
    return padded


@kernel
def _pixels(
    input, level, within, padded,
    images, height, width, channels, channels_per_group, groups, extent_height, extent_width, top, left,
    PADDING: tl.constexpr, COPY: tl.constexpr, SUM: tl.constexpr,
    BLOCK: tl.constexpr, CHANNELS: tl.constexpr, ONCE: tl.constexpr,
):  # fmt: skip
    """Mean of a pixel's channels, and the mean square of their distances from it, one group at a time."""
    group = tl.program_id(1)
    image, place_in, y, x, there = place(
        tl.program_id(0), images, extent_height * extent_width, extent_width, BLOCK, False
    )
    row_at, row_in = source(y - top, height, PADDING)
    col_at, col_in = source(x - left, width, PADDING)
    own = there & (y >= top) & (y < top + height) & (x >= left) & (x < left + width)
    inside = there & row_in & col_in
    pixel = (image * height + row_at) * width + col_at
    values = input + pixel * channels + group * channels_per_group
    copies = padded + (image * extent_height * extent_width + place_in) * channels + group * channels_per_group
    channel = tl.arange(0, CHANNELS)
    if ONCE:
        used = (channel < channels_per_group)[None, :]
        raw = tl.load(values[:, None] + channel[None, :], mask=inside[:, None] & used, other=0)
        if COPY:
            tl.store(copies[:, None] + channel[None, :], raw, mask=there[:, None] & used)
        tile = raw.to(tl.float32)
        mean = tl.sum(tile, 1) / channels_per_group
        distance = tl.where(used, tile - mean[:, None], 0)
        spread = tl.sum(distance * distance, 1)
    else:
        total = tl.zeros((BLOCK, CHANNELS), tl.float32)
        for start in range(0, channels_per_group, CHANNELS):
            used = (start + channel < channels_per_group)[None, :]
            raw = tl.load(values[:, None] + (start + channel)[None, :], mask=inside[:, None] & used, other=0)
            if COPY:
                tl.store(copies[:, None] + (start + channel)[None, :], raw, mask=there[:, None] & used)
            total += raw.to(tl.float32)
        mean = tl.sum(total, 1) / channels_per_group
        squares = tl.zeros((BLOCK, CHANNELS), tl.float32)
        if SUM:
            for start in range(0, channels_per_group, CHANNELS):
                used = (start + channel < channels_per_group)[None, :]
                raw = tl.load(values[:, None] + (start + channel)[None, :], mask=inside[:, None] & used, other=0)
                distance = tl.where(used, raw.to(tl.float32) - mean[:, None], 0)
                squares += distance * distance
        spread = tl.sum(squares, 1)
    if SUM:
        tl.store(level + pixel * groups + group, mean, mask=own)
        tl.store(within + pixel * groups + group, spread / channels_per_group, mask=own)


@kernel
def _patches(
    level, within, mean, deviation, norm, eps, root_alpha,
    images, height, width, out_height, out_width, groups, kernel_height, kernel_width,
    stride_height, stride_width, dilation_height, dilation_width, top, left,
    PADDING: tl.constexpr, IMAGES: tl.constexpr, POSITIONS: tl.constexpr,
):  # fmt: skip
    """Mean and deviation of every patch from the pixels under it.

    A tile of images by positions: pixels lie image by image, the statistics position by position.
    """
    positions = out_height * out_width
    blocks = tl.cdiv(positions, POSITIONS)
    group = tl.program_id(1)
    image = (tl.program_id(0) // blocks * IMAGES + tl.arange(0, IMAGES)).to(tl.int64)[:, None]
    position = (tl.program_id(0) % blocks * POSITIONS + tl.arange(0, POSITIONS))[None, :]
    there = (image < images) & (position < positions)
    y = position // out_width * stride_height - top
    x = position % out_width * stride_width - left
    base = image * height * width
    taps = kernel_height * kernel_width
    total = tl.zeros((IMAGES, POSITIONS), tl.float32)
    for tap in tl.range(taps, loop_unroll_factor=9):
        row_at, row_in = source(y + tap // kernel_width * dilation_height, height, PADDING)
        col_at, col_in = source(x + tap % kernel_width * dilation_width, width, PADDING)
        at = (base + row_at * width + col_at) * groups + group
        total += tl.load(level + at, mask=there & row_in & col_in, other=0)
    centre = total / taps
    spread = tl.zeros((IMAGES, POSITIONS), tl.float32)
    for tap in tl.range(taps, loop_unroll_factor=9):
        row_at, row_in = source(y + tap // kernel_width * dilation_height, height, PADDING)
        col_at, col_in = source(x + tap % kernel_width * dilation_width, width, PADDING)
        at = (base + row_at * width + col_at) * groups + group
        mask = there & row_in & col_in
        distance = tl.load(level + at, mask=mask, other=0) - centre
        spread += tl.load(within + at, mask=mask, other=0) + distance * distance
    at = (group.to(tl.int64) * positions + position) * images + image
    root = tl.sqrt(spread / taps + eps)
    tl.store(mean + at, centre, mask=there)
    tl.store(deviation + at, root, mask=there)
    tl.store(norm + (image * positions + position) * groups + group, root * root_alpha, mask=there)


class Shares(NamedTuple):
    """What a patch hands every value under it, through its mean and deviation: ``constant + slope * value``.

    Both ``(groups, positions, images)``.
    """

    constant: Tensor
    slope: Tensor


def plain_shares(
    grad_norm: Tensor, norm: Tensor, grad_deviation: Tensor | None, mean: Tensor, deviation: Tensor, alpha: int
) -> Shares:
    """The shares of NCC, from the gradients of its divisor ``(N, positions, groups)`` and of the deviation."""
    return _shares(None, grad_norm, norm, grad_deviation, mean, deviation, None, alpha, None, False, 0.0)[0]


def robust_shares(
    sums: Tensor,
    grad_norm: Tensor,
    norm: Tensor,
    grad_deviation: Tensor | None,
    mean: Tensor,
    deviation: Tensor,
    c: Tensor,
    alpha: int,
    *,
    robust: str,
    per_patch: bool,
    eps: float,
) -> tuple[Shares, Tensor]:
    """The shares of robust NCC, and for each patch its part of the gradient of c."""
    return _shares(sums, grad_norm, norm, grad_deviation, mean, deviation, c, alpha, robust, per_patch, eps)


def pull(grad_norm: Tensor, norm: Tensor) -> Tensor:
    """Twice the gradient of a patch's energy, ``(groups, positions, images)``, from that of its root."""
    return (grad_norm / norm).permute(2, 1, 0).contiguous()


def _shares(
    sums: Tensor | None,
    grad_norm: Tensor,
    norm: Tensor,
    grad_deviation: Tensor | None,
    mean: Tensor,
    deviation: Tensor,
    c: Tensor | None,
    alpha: int,
    robust: str | None,
    per_patch: bool,
    eps: float,
) -> tuple[Shares, Tensor]:
    groups, positions, images = mean.shape
    constant, slope, grad_c = (torch.empty_like(mean) for _ in range(3))
    block = 256
    if mean.numel():
        _share[(triton.cdiv(mean.numel(), block),)](
            mean if sums is None else sums, grad_norm, norm, mean if grad_deviation is None else grad_deviation,
            mean, deviation, mean if c is None else c, constant, slope, grad_c, eps,
            groups, positions, images, alpha, 0 if sums is None else sums.shape[1],
            ROBUST=robust or "none", PER_PATCH=per_patch, GIVEN=grad_deviation is not None, BLOCK=block,
        )  # fmt: skip
    return Shares(constant, slope), grad_c


@kernel
def _share(
    sums, grad_norm, norm, grad_deviation, mean, deviation, c, constant, slope, grad_c, eps,
    groups, positions, images, alpha, parts,
    ROBUST: tl.constexpr, PER_PATCH: tl.constexpr, GIVEN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    all_patches = tl.cast(groups, tl.int64) * positions * images
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = at < all_patches
    image = at % images
    position = at // images % positions
    group = at // images // positions
    at_norm = (image * positions + position) * groups + group
    root = tl.load(norm + at_norm, mask=there, other=1)
    from_norm = tl.load(grad_norm + at_norm, mask=there, other=0)
    centre = tl.load(mean + at, mask=there, other=0)
    spread = tl.load(deviation + at, mask=there, other=1)
    to_mean = tl.zeros((BLOCK,), tl.float32)
    to_deviation = tl.zeros((BLOCK,), tl.float32)
    if GIVEN:
        to_deviation += tl.load(grad_deviation + at, mask=there, other=0)
    if ROBUST == "none":
        # The divisor is a multiple of the deviation; or the patch was divided by it, and this is minus its gradient
        # along itself, over the divisor.
        to_deviation += from_norm * root / spread
    else:
        shift = tl.zeros((BLOCK,), tl.float32)
        stretch = tl.zeros((BLOCK,), tl.float32)
        for part in tl.range(parts, loop_unroll_factor=8):
            shift += tl.load(sums + part * all_patches + at, mask=there, other=0)
            stretch += tl.load(sums + (parts + part) * all_patches + at, mask=there, other=0)
        factor = tl.load(c)
        scale = factor * spread if PER_PATCH else factor + 0 * spread
        rate = 1 / scale
        to_mean = -rate * shift
        floor, floor_slope = bend(tl.minimum(rate, 0.5), ROBUST, True)
        to_floor = tl.where(rate < 0.5, from_norm / root * alpha * eps * floor * floor_slope * rate * rate, 0)
        to_scale = -stretch * rate - to_floor
        if PER_PATCH:
            to_deviation += factor * to_scale
            tl.store(grad_c + at, spread * to_scale, mask=there)
        else:
            tl.store(grad_c + at, to_scale, mask=there)
    to_variance = to_deviation / (2 * spread)
    tl.store(slope + at, 2 * to_variance / alpha, mask=there)
    tl.store(constant + at, (to_mean - 2 * to_variance * centre) / alpha, mask=there)


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
