"""The one large product of NCC, in whatever precision autocast asks for.

float16 ends at 65504, and both ends of the product can leave it: an image with one hot pixel on the way in, and on the
way back a gradient divided by the norm of a flat patch. So in float16 both are brought into range first, by a factor
that is given back afterwards. Other dtypes need none of this and take torch's own path.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from xcnorm.ops.autograd import apply
from xcnorm.ops.precision import full_precision, in_range
from xcnorm.ops.spec import Correlation

_HALF_LIMIT = 2.0**14
_MANY_POSITIONS = 256  # of an image; with fewer a matrix product takes up to six times as long as a convolution


def product(values: Tensor, weight: Tensor, spec: Correlation, compute_dtype: torch.dtype) -> Tensor:
    """Convolution of padded values ``(N, C_in, *sizes)`` with filters, or a matrix product without position axes.

    Computed in ``compute_dtype``, returned in the dtype of ``values``.
    """
    if compute_dtype != torch.float16:
        return convolve(values.to(compute_dtype), weight.to(compute_dtype), spec).to(values.dtype)
    peak = values.detach().abs().amax(list(range(1, values.ndim)), keepdim=True)
    unit = (peak / _HALF_LIMIT).clamp_min(1)
    total: Tensor = apply(_HalfProduct, values / unit, weight, spec)
    return total * unit


def convolve(values: Tensor, weight: Tensor, spec: Correlation) -> Tensor:
    """The product in the dtype of both factors."""
    if not spec.kernel:
        return F.linear(values, weight)
    if _is_matrix_product(values, spec):
        return (weight.flatten(1) @ values.flatten(2)).unflatten(2, values.shape[2:])
    convolve = (F.conv1d, F.conv2d, F.conv3d)[len(spec.kernel) - 1]
    total: Tensor = convolve(values, weight, None, spec.stride, 0, spec.dilation, spec.groups)
    return total


def _is_matrix_product(values: Tensor, spec: Correlation) -> bool:
    """Whether a convolution is one matrix product for each image, and faster so."""
    if set(spec.kernel) != {1} or set(spec.stride) != {1} or spec.groups != 1 or not values.is_contiguous():
        return False
    # A compiler would bring an ordinary convolution's input into channels-last order first. And it may not know sizes.
    return torch.compiler.is_compiling() or values.shape[2:].numel() >= _MANY_POSITIONS


class _HalfProduct(torch.autograd.Function):
    """The product in float16 with a backward that scales its gradient into range."""

    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor, weight: Tensor, spec: Correlation) -> Tensor:
        """``values`` and ``weight`` in full precision, and so the result."""
        return convolve(values.half(), weight.half(), spec).to(values.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep both factors."""
        values, weight, ctx.spec = inputs
        ctx.save_for_backward(values, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        """Gradients of values and weight."""
        values, weight = ctx.saved_tensors
        spec: Correlation = ctx.spec
        with full_precision(values.device):
            grad, unit = in_range(grads[0], torch.float16)
            small, peak = in_range(values, torch.float16)
            if not spec.kernel:
                grad_values, grad_weight = grad @ weight.half(), grad.mT @ small
            else:
                none = [0] * len(spec.kernel)
                grad_values, grad_weight, _ = torch.ops.aten.convolution_backward(
                    grad, small, weight.half(), None, spec.stride, none, spec.dilation,
                    False, none, spec.groups, (True, True, False),
                )  # fmt: skip
            return grad_values.to(values.dtype) * unit, grad_weight.to(weight.dtype) * unit * peak, None
