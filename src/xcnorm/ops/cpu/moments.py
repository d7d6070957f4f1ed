"""Moments over channels, a block of images at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from xcnorm.ops import dense
from xcnorm.ops.cpu.blocks import blocks
from xcnorm.ops.cpu.twice import through_formula


class ChannelMoments(torch.autograd.Function):
    """`dense.channel_moments`; the backward subtracts the level anew."""

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
            return tuple(through_formula(dense.channel_moments, (input, level), grads))
        of_mean, of_variance = grads
        grad = torch.empty_like(input)
        grouped, level = _grouped(input, level)
        slope, offset = moments_gradient(of_mean, of_variance, mean, grouped.shape[2])
        torch.sub(grouped, level, out=grad.unflatten(1, grouped.shape[1:3])).mul_(slope).add_(offset)
        return grad, None


def channel_moments(input: Tensor, level: Tensor) -> dense.Moments:
    """`dense.channel_moments` without its gradient."""
    grouped, level = _grouped(input, level)
    mean, variance = (grouped.new_empty(*grouped.shape[:2], *grouped.shape[3:]) for _ in range(2))
    for block in blocks(len(input), input[0].numel()):
        values = grouped[block] - level[block]
        torch.mean(values, 2, out=mean[block])
        torch.mean(values.sub_(mean[block].unsqueeze(2)).pow_(2), 2, out=variance[block])
    return dense.Moments(mean, variance)


def moments_gradient(of_mean: Tensor, of_variance: Tensor, mean: Tensor, channels: int) -> tuple[Tensor, Tensor]:
    """Slope and offset, ``(N, sets, 1, *sizes)``: times and plus which the values are the gradient of themselves."""
    slope = of_variance * (2 / channels)
    return slope.unsqueeze(2), (of_mean / channels - slope * mean).unsqueeze(2)


def _grouped(input: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
    """``(N, sets, channels, *sizes)``, and the level beside it."""
    return input.unflatten(1, (level.shape[1], -1)), level[(..., *(None,) * (input.ndim - 1))]
