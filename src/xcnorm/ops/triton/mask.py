"""The attention mask as an operator of torch: the one factor that it multiplies a similarity by, and its gradient."""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from xcnorm.functional.mask import attention_factor
from xcnorm.ops.autograd import through_formula
from xcnorm.ops.triton.geometry import source
from xcnorm.ops.triton.sums import ADDED, NEIGHBOURS, add, sum_programs

_BLOCK = 256  # pixels of a program


@triton.jit
def _pixels(pixels, height, width, BLOCK: tl.constexpr):
    """A program's pixels, of all images, their two coordinates and which of them exist."""
    pixel = tl.program_id(0).to(pixels.dtype) * BLOCK + tl.arange(0, BLOCK)
    return pixel, pixel // width % height, pixel % width, pixel < pixels


@triton.jit
def _neighbour(norm, pixel, y, x, down, right, exists, height, width, groups):
    """The norm at a distance from every pixel, the border replicated."""
    row, _ = source(y + down, height, "replicate")
    column, _ = source(x + right, width, "replicate")
    at = (pixel + (row - y) * width + (column - x)).to(tl.int64)
    return tl.load(norm + at * groups + tl.program_id(1), mask=exists, other=0)


@triton.jit
def _psi(norm, weight, bias, scale, pixel, y, x, exists, height, width, groups, TALL: tl.constexpr, WIDE: tl.constexpr):
    """The mask itself: a convolution and a sigmoid."""
    total = tl.zeros(pixel.shape, tl.float32)
    taps = weight + tl.program_id(1) * TALL * WIDE
    for i in tl.static_range(TALL):
        for j in tl.static_range(WIDE):
            near = _neighbour(norm, pixel, y, x, i - TALL // 2, j - WIDE // 2, exists, height, width, groups)
            total += tl.load(taps + i * WIDE + j) * near
    return tl.sigmoid(total * scale + tl.load(bias + tl.program_id(1)))


@triton.jit(do_not_specialize=["pixels"])
def _mask(
    norm, weight, bias, factor, scale, pixels, height, width, groups,
    TALL: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    pixel, y, x, exists = _pixels(pixels, height, width, BLOCK)
    m = _psi(norm, weight, bias, scale, pixel, y, x, exists, height, width, groups, TALL, WIDE)
    at = pixel.to(tl.int64) * groups + tl.program_id(1)
    tl.store(factor + at, m + (1 - m) * tl.load(norm + at, mask=exists, other=0), mask=exists)


@torch.library.custom_op("xcnorm::mask", mutates_args=())
def mask(norm: Tensor, weight: Tensor, bias: Tensor, alpha: int) -> Tensor:
    """The factor ``m + (1 - m) norm`` of `xcnorm.functional.masked_similarity`.

    Args:
        norm: Norm of every patch, ``(N, H, W, groups)``, contiguous, float32.
        weight: Of the convolution in the mask, ``(groups, kernel height, kernel width)``, odd sizes, float32.
        bias: Its bias, ``(groups,)``, float32.
        alpha: Values in a patch; the mask looks at ``norm / sqrt(alpha)``.

    Returns:
        Like ``norm``.
    """
    factor = torch.empty_like(norm)
    if norm.numel():
        sizes, options = _launch(norm, weight, alpha)
        _mask[(triton.cdiv(sizes[1], _BLOCK), sizes[-1])](norm, weight, bias, factor, *sizes, **options)
    return factor


@mask.register_fake
def _(norm, weight, bias, alpha):
    return torch.empty_like(norm)


def _launch(norm: Tensor, weight: Tensor, alpha: int) -> tuple[tuple[Any, ...], dict[str, int]]:
    """What all kernels take: scale, pixels, height, width and groups; and constants."""
    _, height, width, groups = norm.shape
    sizes = (1 / math.sqrt(alpha), norm.numel() // groups, height, width, groups)
    return sizes, {"TALL": weight.shape[1], "WIDE": weight.shape[2], "BLOCK": _BLOCK}


@triton.jit(do_not_specialize=["pixels"])
def _slopes(
    dfactor, norm, weight, bias, dlogit, dnorm, dweight, dbias, scale, pixels, height, width, groups,
    TALL: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradients of the sigmoid's argument, of weight and bias for each program, and of norm but through the mask."""
    pixel, y, x, exists = _pixels(pixels, height, width, BLOCK)
    group = tl.program_id(1)
    m = _psi(norm, weight, bias, scale, pixel, y, x, exists, height, width, groups, TALL, WIDE)
    at = pixel.to(tl.int64) * groups + group
    gradient = tl.load(dfactor + at, mask=exists, other=0)
    slope = gradient * (1 - tl.load(norm + at, mask=exists, other=0)) * m * (1 - m)
    tl.store(dlogit + at, slope, mask=exists)
    tl.store(dnorm + at, gradient * (1 - m), mask=exists)
    part = tl.program_id(0) * groups + group
    tl.store(dbias + part, tl.sum(slope))
    for i in tl.static_range(TALL):
        for j in tl.static_range(WIDE):
            near = _neighbour(norm, pixel, y, x, i - TALL // 2, j - WIDE // 2, exists, height, width, groups)
            tl.store(dweight + (part * TALL + i) * WIDE + j, tl.sum(slope * near) * scale)


@triton.jit(do_not_specialize=["pixels", "programs"])
def _collect(
    dlogit, weight, dnorm, dweights, dweight, dbiases, dbias, programs, scale, pixels, height, width, groups,
    TALL: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Add the gradient of norm through the mask; in programs after those, add up the gradients of the parameters."""
    if tl.program_id(0) < programs:
        _norm_through_mask(dlogit, weight, dnorm, scale, pixels, height, width, groups, TALL, WIDE, BLOCK)
    else:
        block = (tl.program_id(0) - programs) * groups + tl.program_id(1)
        for_weight = tl.cdiv(groups * TALL * WIDE, NEIGHBOURS)
        if block < for_weight:
            add(dweights, dweight, programs, groups * TALL * WIDE, block, None, ADDED // NEIGHBOURS)
        else:
            add(dbiases, dbias, programs, groups, block - for_weight, None, ADDED // NEIGHBOURS)


@triton.jit
def _norm_through_mask(
    dlogit, weight, dnorm, scale, pixels, height, width, groups,
    TALL: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Each pixel gathers what the outputs around it send back, to itself or, at a border, to its copies beyond it."""
    pixel, y, x, exists = _pixels(pixels, height, width, BLOCK)
    group = tl.program_id(1)
    taps = weight + group * TALL * WIDE
    total = tl.zeros((BLOCK,), tl.float32)
    for down in tl.static_range(TALL):
        row = y + down - TALL // 2  # of an output that may have seen the pixel
        for j in tl.static_range(WIDE):
            weights = tl.zeros((BLOCK,), tl.float32)
            for i in tl.static_range(TALL):
                seen, _ = source(row + i - TALL // 2, height, "replicate")
                weights += tl.where(seen == y, tl.load(taps + i * WIDE + j), 0.0)
            for right in tl.static_range(WIDE):
                column = x + right - WIDE // 2
                seen, _ = source(column + j - WIDE // 2, width, "replicate")
                inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
                at = (pixel + (row - y) * width + (column - x)).to(tl.int64) * groups + group
                total += weights * tl.load(dlogit + at, mask=exists & inside & (seen == x), other=0)
    at = pixel.to(tl.int64) * groups + group
    tl.store(dnorm + at, tl.load(dnorm + at, mask=exists, other=0) + total * scale, mask=exists)


@torch.library.custom_op("xcnorm::mask_backward", mutates_args=())
def mask_backward(
    grad: Tensor, norm: Tensor, weight: Tensor, bias: Tensor, alpha: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of norm, weight and bias, each like its tensor, from that of the factor."""
    if not norm.numel():
        return torch.empty_like(norm), torch.zeros_like(weight), torch.zeros_like(bias)
    sizes, options = _launch(norm, weight, alpha)
    groups = sizes[-1]
    programs = triton.cdiv(sizes[1], _BLOCK)
    dnorm, dlogit = (torch.empty_like(norm) for _ in range(2))
    dweight, dbias = torch.empty_like(weight), torch.empty_like(bias)
    dweights, dbiases = (tensor.new_empty((programs, *tensor.shape)) for tensor in (weight, bias))
    _slopes[(programs, groups)](
        grad.contiguous(), norm, weight, bias, dlogit, dnorm, dweights, dbiases, *sizes, **options
    )
    adding = sum_programs(weight.numel()) + sum_programs(groups)
    _collect[(programs + triton.cdiv(adding, groups), groups)](
        dlogit, weight, dnorm, dweights, dweight, dbiases, dbias, programs, *sizes, **options
    )
    return dnorm, dweight, dbias


@mask_backward.register_fake
def _(grad, norm, weight, bias, alpha):
    return torch.empty_like(norm), torch.empty_like(weight), torch.empty_like(bias)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.alpha = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx: Any, grad: Tensor) -> Any:
    if torch.is_grad_enabled():

        def formula(norm: Tensor, weight: Tensor, bias: Tensor) -> list[Tensor]:
            factor = attention_factor(norm.permute(0, 3, 1, 2), weight.unsqueeze(1), bias, ctx.alpha)
            return [factor.permute(0, 2, 3, 1)]

        return *through_formula(formula, ctx.saved_tensors, [grad]), None
    return *mask_backward(grad, *ctx.saved_tensors, ctx.alpha), None


mask.register_autograd(_backward, setup_context=_setup)
