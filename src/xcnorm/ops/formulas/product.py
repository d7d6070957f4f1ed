"""The one large product of NCC, in whatever precision autocast asks for.

float16 ends at 65504, and both ends of the product can leave it: an image with one hot pixel on the way in, and on the
way back a gradient divided by the norm of a flat patch. So in float16 both are brought into range first, by a factor
that is given back afterwards. Other dtypes need none of this and take torch's own path.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from xcnorm.ops.autograd import apply
from xcnorm.ops.formulas.ncc import convolve
from xcnorm.ops.spec import Correlation, full_precision

_HALF_LIMIT = 2.0**14


def product(values: Tensor, weight: Tensor, correlation: Correlation, compute_dtype: torch.dtype) -> Tensor:
    """Convolution of padded values ``(N, C_in, *sizes)`` with filters, or a matrix product without position axes.

    Computed in ``compute_dtype``, returned in the dtype of ``values``.
    """
    if compute_dtype != torch.float16:
        return convolve(values.to(compute_dtype), weight.to(compute_dtype), correlation).to(values.dtype)
    peak = values.detach().abs().amax(list(range(1, values.ndim)), keepdim=True)
    unit = (peak / _HALF_LIMIT).clamp_min(1)
    total: Tensor = apply(_HalfProduct, values / unit, weight, correlation)
    return total * unit


class _HalfProduct(torch.autograd.Function):
    """The product in float16 with a backward that scales its gradient into range."""

    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor, weight: Tensor, correlation: Correlation) -> Tensor:
        """``values`` and ``weight`` in full precision, and so the result."""
        return convolve(values.half(), weight.half(), correlation).to(values.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep both factors."""
        values, weight, ctx.correlation = inputs
        ctx.save_for_backward(values, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        """Gradients of values and weight."""
        values, weight = ctx.saved_tensors
        correlation: Correlation = ctx.correlation
        with full_precision(values.device):
            grad, unit = in_range(grads[0], torch.float16)
            small, peak = in_range(values, torch.float16)
            if not correlation.kernel:
                grad_values, grad_weight = grad @ weight.half(), grad.mT @ small
            else:
                none = [0] * len(correlation.kernel)
                grad_values, grad_weight, _ = torch.ops.aten.convolution_backward(
                    grad, small, weight.half(), None, correlation.stride, none, correlation.dilation,
                    False, none, correlation.groups, (True, True, False),
                )  # fmt: skip
            return grad_values.to(values.dtype) * unit, grad_weight.to(weight.dtype) * unit * peak, None


def in_range(values: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor | float]:
    """Values in ``dtype``, and the factor that was taken out of them so that float16 can hold them."""
    if dtype != torch.float16:
        return values.to(dtype), 1.0
    if values.numel() == 0:
        return values.to(dtype), 1.0
    unit = values.detach().abs().amax().clamp_min(torch.finfo(torch.float32).tiny)
    return (values / unit).to(dtype), unit
