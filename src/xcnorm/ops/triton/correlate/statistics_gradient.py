"""Gradient that a patch hands to each of its values through its mean and deviation: the same function for them all.

Maps over positions lie as ``(groups, positions, images)``, like the statistics themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from xcnorm.ops.triton.correlate.forward import apply_phi
from xcnorm.ops.triton.correlate.gather import any_of, gather, padded_place
from xcnorm.ops.triton.geometry import Problem, Sides, both_orders, both_orders_grid, kernel_of, place, row_blocks

_TILE = 4096  # values of a program's tile
_PATCHES = 256  # of a program


class StatisticsGradient(NamedTuple):
    """To every value under a patch, ``constant + slope * value``; both ``(groups, positions, images)``."""

    constant: Tensor
    slope: Tensor


def of_plain(
    grad_divisor: Tensor, grad_norm: Tensor | None, divisor: Tensor, sides: Sides, p: Problem
) -> StatisticsGradient:
    """That of NCC, from the gradients of its divisor and, if anybody asked, of the norm, ``(N, positions, groups)``."""
    g = p.geometry
    constant, slope = (torch.empty_like(sides.mean) for _ in range(2))
    if constant.numel():
        _plain[both_orders_grid(g)](
            grad_divisor, grad_norm, divisor, sides.mean, sides.deviation, constant, slope, g.alpha, g.alpha**0.5, g
        )
    return StatisticsGradient(constant, slope)


def of_energy(
    grad_divisor: Tensor, grad_norm: Tensor | None, divisor: Tensor, sides: Sides, p: Problem, *, of_c: bool
) -> tuple[Tensor, Tensor | None]:
    """Twice the gradient of each patch's energy, from those of its root and of the norm after phi.

    Args:
        grad_divisor: Gradient of the root, ``(N, positions, groups)``.
        grad_norm: That of the norm, which is the root times the scale; None for none.
        divisor: The root.
        sides: Of the product.
        p: What is correlated.
        of_c: Whether the gradient of c is wanted.

    Returns:
        It, ``(groups, positions, images)``; and what the norm adds to the gradient of the scale, if it is wanted and
        there is any.
    """
    result = torch.empty_like(sides.deviation)
    of_scale = p.per_patch or of_c
    of_scale_by_norm = torch.empty_like(result) if of_scale and grad_norm is not None else None
    if result.numel():
        _energy[both_orders_grid(p.geometry)](
            grad_divisor, grad_norm, divisor, sides.deviation, sides.c, result, of_scale_by_norm, p.geometry,
            PER_PATCH=p.per_patch,
        )  # fmt: skip
    return result, of_scale_by_norm


def of_robust(
    sums: Tensor, to_energy: Tensor, of_scale_by_norm: Tensor | None, sides: Sides, p: Problem, *, of_c: bool
) -> tuple[StatisticsGradient, Tensor | None]:
    """That of robust NCC; and for each patch its part of the gradient of c, if that is wanted."""
    constant, slope = (torch.empty_like(sides.mean) for _ in range(2))
    parts_of_c = torch.empty_like(constant) if of_c else None
    if patches := constant.numel():
        _robust[(triton.cdiv(patches, _PATCHES),)](
            sums, to_energy, of_scale_by_norm, *sides[3:], constant, slope, parts_of_c, p.eps, patches,
            p.geometry.alpha, sums.shape[1], PHI=kernel_of(p.robust), PER_PATCH=p.per_patch, BLOCK=_PATCHES,
        )  # fmt: skip
    return StatisticsGradient(constant, slope), parts_of_c


def add_to(
    result: Tensor, gradient: Tensor, input: Tensor, statistics: StatisticsGradient, p: Problem, *, copied: bool
) -> None:
    """Add to a gradient of the input what all patches hand to it.

    Args:
        result: The gradient of the input ``(N, H, W, C)``, to be written.
        gradient: What is known of it; may be ``result`` itself, unless it is that of the padded copy.
        input: ``(N, H, W, C)``.
        statistics: What every patch hands on.
        p: What is correlated.
        copied: Whether the gradient is that of the padded copy: what reached the padding goes back to its source.
    """
    g = p.geometry
    if not g.images:
        return
    channels = min(triton.next_power_of_2(g.channels_per_group), 128)
    rows = max(1, _TILE // channels)
    if g.position_major:
        rows = min(rows, triton.next_power_of_2(g.images))
    blocks = row_blocks(g.images, g.height * g.width, rows, g.position_major)
    _add[(blocks * triton.cdiv(g.channels_per_group, channels), g.groups)](
        result, gradient, input, *statistics, g, PADDING=p.padding, COPIED=copied, POSITION_MAJOR=g.position_major,
        ROWS=rows, CHANNELS=channels,
    )  # fmt: skip


@triton.jit
def _store(constant, slope, at, exists, to_mean, to_deviation, mean, deviation, alpha):
    """Gradients of a patch's mean and deviation, as what they hand to every value."""
    to_variance = to_deviation / (2 * deviation)
    tl.store(slope + at, 2 * to_variance / alpha, mask=exists)
    tl.store(constant + at, (to_mean - 2 * to_variance * mean) / alpha, mask=exists)


@triton.jit
def _plain(grad_divisor, grad_norm, divisor, patch_mean, patch_deviation, constant, slope, alpha, root_alpha, g):
    _, _, by_image, at, exists = both_orders(g)
    root = tl.load(divisor + by_image, mask=exists, other=1)
    from_divisor = tl.load(grad_divisor + by_image, mask=exists, other=0)
    mean = tl.load(patch_mean + at, mask=exists, other=0)
    deviation = tl.load(patch_deviation + at, mask=exists, other=1)
    # The divisor is a multiple of the deviation; or the patch was divided by it, and this is minus its gradient along
    # itself, over the divisor.
    to_deviation = from_divisor * root / deviation
    if grad_norm is not None:
        to_deviation += tl.load(grad_norm + by_image, mask=exists, other=0) * root_alpha
    _store(constant, slope, at, exists, 0 * mean, to_deviation, mean, deviation, alpha)


@triton.jit
def _energy(grad_divisor, grad_norm, divisor, patch_deviation, c, result, of_scale_by_norm, g, PER_PATCH: tl.constexpr):
    _, _, by_image, at, exists = both_orders(g)
    root = tl.load(divisor + by_image, mask=exists, other=1)
    gradient = tl.load(grad_divisor + by_image, mask=exists, other=0)
    if grad_norm is not None:
        from_norm = tl.load(grad_norm + by_image, mask=exists, other=0)
        scale = tl.load(c)
        if PER_PATCH:
            scale = scale * tl.load(patch_deviation + at, mask=exists, other=1)
        gradient += from_norm * scale
        if of_scale_by_norm is not None:
            tl.store(of_scale_by_norm + at, from_norm * root, mask=exists)
    tl.store(result + at, gradient / root, mask=exists)


@triton.jit(do_not_specialize=["patches", "parts"])
def _robust(
    sums, energy_gradient, of_scale_by_norm, patch_mean, patch_deviation, c, constant, slope, parts_of_c, eps,
    patches, alpha, parts, PHI: tl.constexpr, PER_PATCH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    all_patches = tl.cast(patches, tl.int64)
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    exists = at < all_patches
    mean = tl.load(patch_mean + at, mask=exists, other=0)
    deviation = tl.load(patch_deviation + at, mask=exists, other=1)
    to_energy = tl.load(energy_gradient + at, mask=exists, other=0)
    of_t = tl.zeros((BLOCK,), tl.float32)
    along_t = tl.zeros((BLOCK,), tl.float32)
    for part in tl.range(parts, loop_unroll_factor=8):
        of_t += tl.load(sums + part * all_patches + at, mask=exists, other=0)
        along_t += tl.load(sums + (parts + part) * all_patches + at, mask=exists, other=0)
    factor = tl.load(c)
    scale = factor * deviation if PER_PATCH else factor + 0 * deviation
    rate = 1 / scale
    floor, floor_slope = apply_phi(tl.minimum(rate, 0.5), PHI, True)
    to_floor = tl.where(rate < 0.5, to_energy * alpha * eps * floor * floor_slope * rate * rate, 0)
    to_scale = -along_t * rate - to_floor
    if of_scale_by_norm is not None:
        to_scale += tl.load(of_scale_by_norm + at, mask=exists, other=0)
    to_deviation = tl.zeros((BLOCK,), tl.float32)
    if PER_PATCH:
        to_deviation += factor * to_scale
    if parts_of_c is not None:
        tl.store(parts_of_c + at, deviation * to_scale if PER_PATCH else to_scale, mask=exists)
    _store(constant, slope, at, exists, -rate * of_t, to_deviation, mean, deviation, alpha)


@triton.jit
def _add(
    result, gradient, input, constant, slope, g, PADDING: tl.constexpr, COPIED: tl.constexpr,
    POSITION_MAJOR: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(1)
    channel_blocks = tl.cdiv(g.channels_per_group, CHANNELS)
    image, _, y, x, exists = place(
        tl.program_id(0) // channel_blocks, g.images, g.height * g.width, g.width, ROWS, POSITION_MAJOR
    )
    channel = tl.program_id(0) % channel_blocks * CHANNELS + tl.arange(0, CHANNELS)
    mask = exists[:, None] & (channel < g.channels_per_group)[None, :]
    base = ((image * g.height + y) * g.width + x) * g.channels + group * g.channels_per_group
    at = base[:, None] + channel[None, :]
    # Loads of the large tiles first: they are under way while the statistics' part is gathered.
    values = tl.load(input + at, mask=mask, other=0)
    height, width = g.height + g.top + g.bottom, g.width + g.left + g.right
    if COPIED:
        own = (image * height + y + g.top) * width + x + g.left
        own = (own * g.channels + group * g.channels_per_group)[:, None] + channel[None, :]
        total = tl.load(gradient + own, mask=mask, other=0).to(tl.float32)
    else:
        total = tl.load(gradient + at, mask=mask, other=0).to(tl.float32)
    all_constant, all_slope = gather(constant, slope, image, y, x, group, g, PADDING, ROWS, POSITION_MAJOR)
    if COPIED and PADDING != "zeros":
        for copy_y in range(1 + g.top + g.bottom):
            padded_y, is_y = padded_place(copy_y, y, g.height, g.top, PADDING)
            if any_of(is_y, POSITION_MAJOR):
                # Not the pixel itself once more.
                for copy_x in range(tl.where(copy_y == 0, 1, 0), 1 + g.left + g.right):
                    padded_x, is_x = padded_place(copy_x, x, g.width, g.left, PADDING)
                    if any_of(is_x, POSITION_MAJOR):
                        copy = (image * height + padded_y) * width + padded_x
                        copy = (copy * g.channels + group * g.channels_per_group)[:, None] + channel[None, :]
                        read = exists & is_y & is_x
                        total += tl.load(gradient + copy, mask=mask & read[:, None], other=0).to(tl.float32)
    total += all_constant[:, None] + all_slope[:, None] * values.to(tl.float32)
    tl.store(result + at, total.to(result.dtype.element_ty), mask=mask)
