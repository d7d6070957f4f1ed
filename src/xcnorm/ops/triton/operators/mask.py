"""The factor of the attention mask, as an operator."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

import xcnorm.functional as xf
from xcnorm.functional.stages import mask_factor
from xcnorm.ops.triton.operators.define import define, second_derivatives


@define("mask", "(Tensor norm, Tensor weight, Tensor bias, int alpha) -> Tensor")
def mask(norm: Tensor, weight: Tensor, bias: Tensor, alpha: int) -> Tensor:
    """``m + (1 - m) norm`` for norms ``(N, H, W, groups)``; see `xcnorm.ops.triton.mask.mask`."""
    from xcnorm.ops.triton import mask as kernels

    return kernels.mask(norm, weight, bias, alpha)


@mask.register_fake
def _(norm, weight, bias, alpha):  # type: ignore[no-untyped-def]
    return torch.empty_like(norm)


@define(
    "mask_backward", "(Tensor grad, Tensor norm, Tensor weight, Tensor bias, int alpha) -> (Tensor, Tensor, Tensor)"
)
def mask_backward(grad: Tensor, norm: Tensor, weight: Tensor, bias: Tensor, alpha: int) -> tuple[Tensor, ...]:
    """Gradients of norm, weight and bias."""
    from xcnorm.ops.triton import mask as kernels

    return kernels.mask_backward(grad, norm, weight, bias, alpha)


@mask_backward.register_fake
def _(grad, norm, weight, bias, alpha):  # type: ignore[no-untyped-def]
    return torch.empty_like(norm), torch.empty_like(weight), torch.empty_like(bias)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.alpha = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx: Any, grad: Tensor) -> Any:
    return *mask_backward(grad, *ctx.saved_tensors, ctx.alpha), None


mask.register_autograd(_backward, setup_context=_save)


def _save_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.alpha = inputs
    ctx.save_for_backward(*tensors)


def _twice(ctx: Any, *grads: Tensor) -> Any:
    grad, *arguments = ctx.saved_tensors

    def formula(norm: Tensor, weight: Tensor, bias: Tensor) -> list[Tensor]:
        maps = norm.permute(0, 3, 1, 2)
        part = xf.attention_mask(maps / math.sqrt(ctx.alpha), weight.unsqueeze(1), bias)
        return [mask_factor(maps, part).permute(0, 2, 3, 1)]

    return *second_derivatives(formula, arguments, [grad], grads), None


mask_backward.register_autograd(_twice, setup_context=_save_backward)
