"""Both sides of the product before it is taken: centred filters of unit norm, and the moments of the channels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import xcnorm.functional as xf
from xcnorm.functional.correlation import WEIGHT_FLOOR
from xcnorm.ops.autograd import through_formula
from xcnorm.ops.cpu.memory import blocks
from xcnorm.ops.formulas import patches
from xcnorm.ops.formulas.patches import Moments
from xcnorm.ops.precision import full_precision


class Filters(torch.autograd.Function):
    """`xcnorm.functional.normalise_weight`, with fewer copies of a large weight than autograd would make."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor) -> Tensor:
        """Same shape."""
        flat = weight.flatten(1)
        filters = flat - flat.mean(1, keepdim=True)
        norm = torch.linalg.vector_norm(filters, dim=1, keepdim=True).square_().add_(WEIGHT_FLOOR).sqrt_()
        filters.div_(norm)
        ctx.save_for_backward(weight, filters, norm)
        return filters.view(weight.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Tensor | None:
        """What is left of the gradient beside the filter's direction and a constant."""
        weight, filters, norm = ctx.saved_tensors
        if torch.is_grad_enabled():
            return through_formula(lambda weight: [xf.normalise_weight(weight)], [weight], grads)[0]
        grad = grads[0].flatten(1)
        with full_precision(grad.device):
            along = torch.linalg.vecdot(grad, filters).unsqueeze(1)
        result = grad - grad.mean(1, keepdim=True)
        return result.addcmul_(filters, along, value=-1).div_(norm).view(weight.shape)


class ChannelMoments(torch.autograd.Function):
    """`patches.channel_moments`; the backward subtracts the level anew."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, level: Tensor) -> tuple[Tensor, ...]:
        """Mean and variance, each ``(N, sets, *sizes)``."""
        moments = channel_moments(input, level)
        ctx.save_for_backward(input, level, moments.mean)
        return tuple(moments)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        """Gradient of the input."""
        input, level, mean = ctx.saved_tensors
        if torch.is_grad_enabled():
            return tuple(through_formula(patches.channel_moments, (input, level), grads))
        of_mean, of_variance = grads
        grad = torch.empty_like(input)
        grouped, level = _grouped(input, level)
        slope, offset = moments_gradient(of_mean, of_variance, mean, grouped.shape[2])
        torch.sub(grouped, level, out=grad.unflatten(1, grouped.shape[1:3])).mul_(slope).add_(offset)
        return grad, None


def channel_moments(input: Tensor, level: Tensor) -> Moments:
    """`patches.channel_moments` without its gradient."""
    grouped, level = _grouped(input, level)
    mean, variance = (grouped.new_empty(*grouped.shape[:2], *grouped.shape[3:]) for _ in range(2))
    for block in blocks(len(input), input[0].numel()):
        values = grouped[block] - level[block]
        torch.mean(values, 2, out=mean[block])
        torch.mean(values.sub_(mean[block].unsqueeze(2)).pow_(2), 2, out=variance[block])
    return Moments(mean, variance)


def moments_gradient(of_mean: Tensor, of_variance: Tensor, mean: Tensor, channels: int) -> tuple[Tensor, Tensor]:
    """Slope and offset, ``(N, sets, 1, *sizes)``: times and plus which the values are the gradient of themselves."""
    slope = of_variance * (2 / channels)
    return slope.unsqueeze(2), (of_mean / channels - slope * mean).unsqueeze(2)


def _grouped(input: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
    """``(N, sets, channels, *sizes)``, and the level beside it."""
    return input.unflatten(1, (level.shape[1], -1)), level[(..., *(None,) * (input.ndim - 1))]
