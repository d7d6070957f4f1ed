"""The numerator of NCC and the moments of its positions, from one function with one backward."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from xcnorm.ops.autograd import through_formula
from xcnorm.ops.cpu.blockwise import channel_moments, inside, moments_gradient, padded, unpadded_gradient
from xcnorm.ops.formulas import ncc
from xcnorm.ops.formulas.ncc import convolve
from xcnorm.ops.spec import Correlation, full_precision


class Convolution(torch.autograd.Function):
    """Product of an input's patches with filters, and the moments of its channels at every position.

    The padded copy of the input is made again in the backward instead of being kept.
    """

    @staticmethod
    def forward(ctx: Any, input: Tensor, level: Tensor, weight: Tensor, correlation: Correlation) -> tuple[Tensor, ...]:
        """Product ``(N, C_out, *positions)``; mean and variance ``(N, groups, *sizes)``, the level subtracted."""
        moments = channel_moments(input, level)
        total = convolve(padded(input, level, correlation), weight, correlation)
        ctx.correlation = correlation
        ctx.save_for_backward(input, level, weight, moments.mean)
        if not ctx.needs_input_grad[0]:
            ctx.mark_non_differentiable(*moments)
        return total, *moments

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        """Gradients of input and weight."""
        input, level, weight, mean = ctx.saved_tensors
        correlation: Correlation = ctx.correlation
        if torch.is_grad_enabled():

            def formula(input: Tensor, level: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
                total = convolve(ncc.padded(input, level, correlation), weight, correlation)
                return total, *ncc.channel_moments(input, level)

            return *through_formula(formula, (input, level, weight), grads), None

        of_product, of_mean, of_variance = grads
        values = padded(input, level, correlation)
        none = [0] * len(correlation.kernel)
        with full_precision(input.device):
            grad, grad_weight, _ = torch.ops.aten.convolution_backward(
                of_product, values, weight, None, correlation.stride, none, correlation.dilation,
                False, none, correlation.groups, (ctx.needs_input_grad[0], ctx.needs_input_grad[2], False),
            )  # fmt: skip
        if not ctx.needs_input_grad[0]:
            return None, None, grad_weight, None
        grad_input = torch.empty_like(input)
        of_products, values, total = (
            maps.unflatten(1, (correlation.groups, -1))
            for maps in (unpadded_gradient(grad, correlation), inside(values, correlation), grad_input)
        )
        slope, offset = moments_gradient(of_mean, of_variance, mean, values.shape[2])
        torch.addcmul(of_products, values, slope, out=total).add_(offset)
        return grad_input, None, grad_weight, None
