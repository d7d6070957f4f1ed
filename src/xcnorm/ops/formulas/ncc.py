"""NCC as a quotient: statistics of patches from sums of one-channel maps, a product with the filters, a divisor."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from xcnorm.functional.correlation import robust_floor
from xcnorm.ops.autograd import apply
from xcnorm.ops.spec import Correlation

_MANY_POSITIONS = 256  # of an image; with fewer a matrix product takes up to six times as long as a convolution


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


def padded(input: Tensor, level: Tensor, correlation: Correlation) -> Tensor:
    """``(N, C, *sizes)`` padded, minus the level of each set of channels."""
    # Zeros are zeros before the level is subtracted; a copy of a value can be made afterwards, in fewer passes.
    if correlation.padding_mode == "zeros":
        return _levelled(pad(input, correlation), level)
    return pad(_levelled(input, level), correlation)


def pad(input: Tensor, correlation: Correlation) -> Tensor:
    """``(N, C, *sizes)`` with its padding."""
    if not any(correlation.padding):
        return input
    if correlation.padding_mode == "replicate" and torch.compiler.is_dynamo_compiling():
        return _replicate(input, correlation.padding)
    return F.pad(
        input, correlation.padding, mode="constant" if correlation.padding_mode == "zeros" else correlation.padding_mode
    )


def _replicate(input: Tensor, padding: tuple[int, ...]) -> Tensor:
    """Padding by replication from slices: inductor expects wrong strides of the backward of torch's own operator."""
    for axis, (before, after) in enumerate(zip(padding[::2], padding[1::2], strict=True), start=1):
        first, last = input.narrow(-axis, 0, 1), input.narrow(-axis, input.shape[-axis] - 1, 1)
        input = torch.cat([*[first] * before, input, *[last] * after], -axis)
    return input


def _levelled(input: Tensor, level: Tensor) -> Tensor:
    level = level.repeat_interleave(input.shape[1] // level.shape[1], 1)
    return input - level[(..., *(None,) * (input.ndim - 2))]


def patch_moments(moments: Moments, level: Tensor, correlation: Correlation) -> Moments:
    """Moments of every patch from those of its positions.

    A patch is built up axis by axis: the variance of a union is the mean variance of its parts plus the variance of
    their means. All of these are sums of squares of differences; the difference of two large squares would drown the
    texture beside a bright edge.
    """
    mean, variance = pad(moments.mean, correlation), pad(moments.variance, correlation)
    if any(correlation.padding) and correlation.padding_mode == "zeros":
        outside = 1 - pad(torch.ones_like(moments.mean[:1, :1]), correlation)
        mean = mean - outside * level[(..., *(None,) * len(correlation.kernel))]
    counts = correlation.positions(mean.shape[2:])
    for axis, (kernel, count, stride, dilation) in enumerate(
        zip(correlation.kernel, counts, correlation.stride, correlation.dilation, strict=True), start=2
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


def convolve(values: Tensor, weight: Tensor, correlation: Correlation) -> Tensor:
    """The product in the dtype of both factors."""
    if not correlation.kernel:
        return F.linear(values, weight)
    if _is_matrix_product(values, correlation):
        return (weight.flatten(1) @ values.flatten(2)).unflatten(2, values.shape[2:])
    convolve = (F.conv1d, F.conv2d, F.conv3d)[len(correlation.kernel) - 1]
    total: Tensor = convolve(values, weight, None, correlation.stride, 0, correlation.dilation, correlation.groups)
    return total


def _is_matrix_product(values: Tensor, correlation: Correlation) -> bool:
    """Whether a convolution is one matrix product for each image, and faster so."""
    if (
        set(correlation.kernel) != {1}
        or set(correlation.stride) != {1}
        or correlation.groups != 1
        or not values.is_contiguous()
    ):
        return False
    # A compiler would bring an ordinary convolution's input into channels-last order first. And it may not know sizes.
    return torch.compiler.is_compiling() or values.shape[2:].numel() >= _MANY_POSITIONS


class Quotient(NamedTuple):
    """A similarity before its division.

    Attributes:
        product: Numerator, ``(N, C_out, *positions)``.
        divisor: ``(N, groups, *positions)``.
        norm: Of the centred patch, after phi if there is one, ``(N, groups, *positions)``.
        deviation: Standard deviation of the patch before phi, ``(N, groups, *positions)``.
    """

    product: Tensor
    divisor: Tensor
    norm: Tensor
    deviation: Tensor

    @property
    def similarity(self) -> Tensor:
        """The quotient itself, ``(N, C_out, *positions)``."""
        return per_group(self.product, self.divisor.reciprocal())


def plain_quotient(total: Tensor, moments: Moments, weight: Tensor, correlation: Correlation) -> Quotient:
    """NCC from the product of padded input and filters, and the moments of the patches."""
    deviation = (moments.variance + correlation.eps).sqrt()
    norm = deviation * math.sqrt(weight[0].numel())
    return Quotient(total, norm, norm, deviation)


class PatchStatistics(NamedTuple):
    """What has to be known of every patch before phi is applied to it.

    The values that reach phi's shape h are ``t = (z - mean) * rate``, and ``scale * h(t)`` is phi; the scale cancels
    between numerator and divisor.

    Attributes:
        level: Of each image, as in `level_of`.
        mean: ``(N, groups, channels or 1, *positions)``.
        rate: The same, or one number.
        scale: ``(N, groups, *positions)``, or one number.
        floor: Of the variance of h, the same.
        deviation: ``(N, groups, *positions)``.
    """

    level: Tensor
    mean: Tensor
    rate: Tensor
    scale: Tensor
    floor: Tensor
    deviation: Tensor

    def quotient(self, total: Tensor, energy: Tensor, alpha: int) -> Quotient:
        """From numerator ``sum w h(t)`` and energy ``sum h(t)^2`` over patches of ``alpha`` values."""
        divisor = (energy + alpha * self.floor).sqrt()
        return Quotient(total, divisor, divisor * self.scale, self.deviation)


def patch_statistics(moments: Moments, level: Tensor, c: Tensor | None, correlation: Correlation) -> PatchStatistics:
    """The statistics for robust NCC, channelwise or not, and for channelwise NCC."""
    mean, variance = (m.unflatten(1, (correlation.groups, -1)) for m in patch_moments(moments, level, correlation))
    if correlation.channelwise:
        rate = (variance + correlation.eps).rsqrt()
        deviation = ((variance * rate.square()).mean(2) + correlation.eps).sqrt()
    else:
        rate = mean.new_ones([1] * mean.ndim)
        deviation = (variance[:, :, 0] + correlation.eps).sqrt()

    if correlation.robust is None:
        floor = deviation.new_full([1] * deviation.ndim, correlation.eps)
        return PatchStatistics(level, mean, rate, torch.ones_like(floor), floor, deviation)
    assert c is not None
    scale = c * deviation if correlation.per_patch else c.view([1] * deviation.ndim)
    floor = robust_floor(scale, correlation.robust, correlation.eps) / scale.square()
    return PatchStatistics(level, mean, rate / scale.unsqueeze(2), scale, floor, deviation)


def per_group(values: Tensor, factor: Tensor) -> Tensor:
    """Scale the channels of each group of ``(N, C_out, *positions)`` by ``(N, groups, *positions)``."""
    if factor.shape[1] == 1:
        return values * factor
    return (values.unflatten(1, (factor.shape[1], -1)) * factor.unsqueeze(2)).flatten(1, 2)
