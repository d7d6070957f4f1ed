"""Mean and variance of every patch, from sums of one-channel maps."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from xcnorm.ops.autograd import apply
from xcnorm.ops.spec import Correlation


class Moments(NamedTuple):
    """Mean and variance over the channels of every position or patch, each ``(N, sets, *sizes)``."""

    mean: Tensor
    variance: Tensor


def level_of(input: Tensor, sets: int) -> Tensor:
    """One number per image and set of channels, ``(N, sets)``.

    Subtracted after padding, it cancels exactly in every centred patch. It keeps statistics and products accurate for
    inputs far from zero.
    """
    grouped = input.detach().unflatten(1, (sets, -1))
    return grouped.mean(list(range(2, grouped.ndim)))


def channel_moments(input: Tensor, level: Tensor) -> Moments:
    """Moments over the channels of each set at every position of ``(N, C, *sizes)``, the level subtracted."""
    return Moments(*apply(_ChannelMoments, _levelled(input, level).unflatten(1, (level.shape[1], -1))))


def padded(input: Tensor, level: Tensor, spec: Correlation) -> Tensor:
    """``(N, C, *sizes)`` padded, minus the level of each set of channels."""
    # Zeros are zeros before the level is subtracted; a copy of a value can be made afterwards, in fewer passes.
    if spec.padding_mode == "zeros":
        return _levelled(pad(input, spec), level)
    return pad(_levelled(input, level), spec)


def pad(input: Tensor, spec: Correlation) -> Tensor:
    """``(N, C, *sizes)`` with its padding."""
    if not any(spec.padding):
        return input
    if spec.padding_mode == "replicate" and torch.compiler.is_dynamo_compiling():
        return _replicate(input, spec.padding)
    return F.pad(input, spec.padding, mode="constant" if spec.padding_mode == "zeros" else spec.padding_mode)


def _replicate(input: Tensor, padding: tuple[int, ...]) -> Tensor:
    """Padding by replication from slices: inductor expects wrong strides of the backward of torch's own operator."""
    for axis, (before, after) in enumerate(zip(padding[::2], padding[1::2], strict=True), start=1):
        first, last = input.narrow(-axis, 0, 1), input.narrow(-axis, input.shape[-axis] - 1, 1)
        input = torch.cat([*[first] * before, input, *[last] * after], -axis)
    return input


def _levelled(input: Tensor, level: Tensor) -> Tensor:
    level = level.repeat_interleave(input.shape[1] // level.shape[1], 1)
    return input - level[(..., *(None,) * (input.ndim - 2))]


def patch_moments(moments: Moments, level: Tensor, spec: Correlation) -> Moments:
    """Moments of every patch from those of its positions.

    A patch is built up axis by axis: the variance of a union is the mean variance of its parts plus the variance of
    their means. All of these are sums of squares of differences; the difference of two large squares would drown the
    texture beside a bright edge.
    """
    mean, variance = pad(moments.mean, spec), pad(moments.variance, spec)
    if any(spec.padding) and spec.padding_mode == "zeros":
        outside = 1 - pad(torch.ones_like(moments.mean[:1, :1]), spec)
        mean = mean - outside * level[(..., *(None,) * len(spec.kernel))]
    counts = spec.positions(mean.shape[2:])
    for axis, (kernel, count, stride, dilation) in enumerate(
        zip(spec.kernel, counts, spec.stride, spec.dilation, strict=True), start=2
    ):
        if kernel == stride == 1:
            continue
        # Line by line: a reduction over all of them at once takes three times as long on a CPU.
        means, variances = (
            [line(maps, axis, at * dilation, count, stride) for at in range(kernel)] for maps in (mean, variance)
        )
        mean = sum(means[1:], means[0]) / kernel
        parts = [part + (of_part - mean).square() for part, of_part in zip(variances, means, strict=True)]
        variance = sum(parts[1:], parts[0]) / kernel
    return Moments(mean, variance)


def line(values: Tensor, axis: int, start: int, count: int, stride: int) -> Tensor:
    """Every ``stride``-th of an axis, ``count`` of them: a view."""
    return values[(slice(None),) * axis + (slice(start, start + (count - 1) * stride + 1, stride),)]


class _ChannelMoments(torch.autograd.Function):
    """Mean and variance over the channels of ``(N, sets, channels, *sizes)``, without storing differences."""

    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor) -> tuple[Tensor, Tensor]:
        """Each ``(N, sets, *sizes)``."""
        mean = values.mean(2)
        return mean, (values - mean.unsqueeze(2)).pow_(2).mean(2)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save the values as they are, and their mean."""
        ctx.save_for_backward(*inputs, output[0])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Tensor:
        """Gradient of the values."""
        values, mean = ctx.saved_tensors
        grad_mean, grad_variance = (grad.unsqueeze(2) / values.shape[2] for grad in grads)
        return torch.addcmul(grad_mean, values - mean.unsqueeze(2), grad_variance, value=2)
