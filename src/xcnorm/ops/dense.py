"""The same numbers from ordinary convolutions and sums of one-channel maps, in bounded memory.

NCC is one convolution with centred, unit-norm filters (the patch mean drops out because the filters are centred)
over a divisor that comes from sums along one-channel maps.

Robust NCC has no such short cut, because phi acts after the patch was centred: patch mean and deviation again
come from one-channel maps, then the kernel's offsets are walked through in small blocks. Each block recomputes its
values in the backward, so that nothing of size K*K*C_in*H*W is ever stored.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

import xcnorm.functional as xf
from xcnorm.functional.correlation import robust_floor
from xcnorm.ops.autograd import apply
from xcnorm.ops.backend import Backend
from xcnorm.ops.correlation import Correlation, Similarity
from xcnorm.ops.precision import full_precision, in_range
from xcnorm.ops.product import product


class Quotient(NamedTuple):
    """A similarity before its division.

    Attributes:
        product: Numerator, ``(N, C_out, *positions)``.
        divisor: ``(N, groups, *positions)``.
        norm: As in `Similarity`.
        deviation: As in `Similarity`.
    """

    product: Tensor
    divisor: Tensor
    norm: Tensor
    deviation: Tensor

    def similarity(self) -> Similarity:
        """Divide."""
        return Similarity(per_group(self.product, self.divisor.reciprocal()), self.norm, self.deviation)


class Moments(NamedTuple):
    """Mean and variance over the channels of every position or patch, each ``(N, sets, *sizes)``."""

    mean: Tensor
    variance: Tensor


def similarity(
    input: Tensor, weight: Tensor, c: Tensor | None, spec: Correlation, compute_dtype: torch.dtype
) -> Similarity:
    """Similarity from convolutions and sums of one-channel maps; see `xcnorm.ops.similarity`."""
    weight = xf.normalise_weight(weight)
    if not spec.kernel:
        return _vectors(input, weight, c, spec, compute_dtype)
    level = level_of(input, input.shape[1] if spec.channelwise else spec.groups)
    moments = channel_moments(input, level)
    if spec.robust is None and not spec.channelwise:
        total = product(padded(input, level, spec), weight, spec, compute_dtype)
        return plain_quotient(total, patch_moments(moments, level, spec), weight, spec).similarity()
    maps = robust_maps(moments, level, c, spec)
    total, energy = by_offsets(padded(input, maps.level, spec), weight, maps.mean, maps.rate, spec, compute_dtype)
    return maps.quotient(total, energy, weight[0].numel()).similarity()


def _vectors(
    input: Tensor, weight: Tensor, c: Tensor | None, spec: Correlation, compute_dtype: torch.dtype
) -> Similarity:
    """Dense layers: the patch is the whole vector, so nothing is shared between patches and there is no short cut."""
    deviation = xf.patch_deviation(input, spec.eps)
    values = input - input.mean(-1, keepdim=True)
    if spec.robust is None:
        norm = xf.patch_norm(input, spec.eps)
    else:
        assert c is not None
        c = c * deviation if spec.per_patch else c
        values = xf.robust_function(spec.robust)(values, c)
        norm = xf.robust_patch_norm(input, c, spec.robust, spec.eps)
    return Similarity(product(values / norm, weight, spec, compute_dtype), norm, deviation)


def plain_quotient(total: Tensor, moments: Moments, weight: Tensor, spec: Correlation) -> Quotient:
    """NCC from the product of padded input and filters, and the moments of the patches."""
    deviation = (moments.variance + spec.eps).sqrt()
    norm = deviation * math.sqrt(weight[0].numel())
    return Quotient(total, norm, norm, deviation)


class RobustMaps(NamedTuple):
    """What robust NCC has to know of every patch before it bends it.

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


def robust_maps(moments: Moments, level: Tensor, c: Tensor | None, spec: Correlation) -> RobustMaps:
    """Maps for robust NCC, channelwise or not, and for channelwise NCC."""
    mean, variance = (m.unflatten(1, (spec.groups, -1)) for m in patch_moments(moments, level, spec))
    if spec.channelwise:
        rate = (variance + spec.eps).rsqrt()
        deviation = ((variance * rate.square()).mean(2) + spec.eps).sqrt()
    else:
        rate = mean.new_ones([1] * mean.ndim)
        deviation = (variance[:, :, 0] + spec.eps).sqrt()

    if spec.robust is None:
        floor = deviation.new_full([1] * deviation.ndim, spec.eps)
        return RobustMaps(level, mean, rate, torch.ones_like(floor), floor, deviation)
    assert c is not None
    scale = c * deviation if spec.per_patch else c.view([1] * deviation.ndim)
    floor = robust_floor(scale, spec.robust, spec.eps) / scale.square()
    return RobustMaps(level, mean, rate / scale.unsqueeze(2), scale, floor, deviation)


def by_offsets(
    input: Tensor, weight: Tensor, mean: Tensor, rate: Tensor, spec: Correlation, compute_dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Numerator and energy of `RobustMaps.quotient` for a padded input, block by block of the kernel's offsets."""
    total, energy = None, None
    grouped = input.unflatten(1, (spec.groups, -1))
    offsets = list(itertools.product(*map(range, spec.kernel)))
    filters = weight.unflatten(0, (spec.groups, -1)).flatten(3)
    for block in _blocks(len(offsets), grouped.shape[2], weight.shape[0] // spec.groups):
        part = apply(
            _OffsetBlock,
            filters[..., block].flatten(2),
            mean,
            rate,
            spec.robust,
            compute_dtype,
            *(_shifted(grouped, offset, spec) for offset in offsets[block]),
        )
        total = part[0] if total is None else total + part[0]
        energy = part[1] if energy is None else energy + part[1]
    assert total is not None
    assert energy is not None
    return total, energy


def _blocks(offsets: int, channels_in: int, channels_out: int) -> Iterator[slice]:
    """Cut the offsets into blocks that hold no more values per position than the layer's wider side."""
    wide = max(channels_in, channels_out)
    if torch.compiler.is_compiling():
        # A compiler fuses a block's arithmetic but takes long over many blocks; these are larger, and as short-lived.
        wide *= 4
    size = max(1, wide // channels_in)
    return (slice(start, start + size) for start in range(0, offsets, size))


def _shifted(grouped: Tensor, offset: tuple[int, ...], spec: Correlation) -> Tensor:
    """The value at one kernel offset of every patch: a view of shape (N, groups, channels, *positions)."""
    counts = spec.positions(grouped.shape[3:])
    view = grouped
    for axis, (at, count, stride, dilation) in enumerate(
        zip(offset, counts, spec.stride, spec.dilation, strict=True), start=3
    ):
        view = _line(view, axis, at * dilation, count, stride)
    return view


def _line(values: Tensor, axis: int, start: int, count: int, stride: int) -> Tensor:
    """Every ``stride``-th of an axis, ``count`` of them: a view."""
    return values[(slice(None),) * axis + (slice(start, start + (count - 1) * stride + 1, stride),)]


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
        return _levelled(spec.pad(input), level)
    return spec.pad(_levelled(input, level))


def _levelled(input: Tensor, level: Tensor) -> Tensor:
    level = level.repeat_interleave(input.shape[1] // level.shape[1], 1)
    return input - level[(..., *(None,) * (input.ndim - 2))]


def patch_moments(moments: Moments, level: Tensor, spec: Correlation) -> Moments:
    """Moments of every patch from those of its positions.

    A patch is built up axis by axis: the variance of a union is the mean variance of its parts plus the variance of
    their means. All of these are sums of squares of differences; the difference of two large squares would drown the
    texture beside a bright edge.
    """
    mean, variance = spec.pad(moments.mean), spec.pad(moments.variance)
    if any(spec.padding) and spec.padding_mode == "zeros":
        outside = 1 - spec.pad(torch.ones_like(moments.mean[:1, :1]))
        mean = mean - outside * level[(..., *(None,) * len(spec.kernel))]
    counts = spec.positions(mean.shape[2:])
    for axis, (kernel, count, stride, dilation) in enumerate(
        zip(spec.kernel, counts, spec.stride, spec.dilation, strict=True), start=2
    ):
        if kernel == stride == 1:
            continue
        # Line by line: a reduction over all of them at once takes three times as long on a CPU.
        means, variances = (
            [_line(maps, axis, at * dilation, count, stride) for at in range(kernel)] for maps in (mean, variance)
        )
        mean = sum(means[1:], means[0]) / kernel
        parts = [part + (of_part - mean).square() for part, of_part in zip(variances, means, strict=True)]
        variance = sum(parts[1:], parts[0]) / kernel
    return Moments(mean, variance)


def per_group(values: Tensor, factor: Tensor) -> Tensor:
    """Scale the channels of each group of ``(N, C_out, *positions)`` by ``(N, groups, *positions)``."""
    if factor.shape[1] == 1:
        return values * factor
    return (values.unflatten(1, (factor.shape[1], -1)) * factor.unsqueeze(2)).flatten(1, 2)


def finished(
    similarity: Tensor,
    factor: Tensor | None,
    tau: Tensor | None,
    gain: Tensor | None,
    mean: Tensor | None,
    variance: Tensor | None,
    *,
    rectify: Any,
    gain_after: bool,
    statistics: Any,
    eps: float,
) -> Tensor:
    """The stages of `xcnorm.ops.Finish` by the functions of the equations, for second derivatives.

    Args:
        similarity: ``(N, C, *positions)``.
        factor: Of the attention mask, ``(N, groups, *positions)``; None without.
        tau: Exponent, to be broadcast; None without.
        gain: ``(C,)``; None without.
        mean: ``(C,)``; looked at if ``statistics`` are given.
        variance: The same.
        rectify: As in `xcnorm.ops.Finish`, and so are the others.
        gain_after: See there.
        statistics: See there.
        eps: See there.
    """
    output = xf.rectify(similarity, rectify)
    if tau is not None:
        output = xf.sharpen(output, tau)
    if gain is not None and not gain_after:
        output = xf.gain(output, gain)
    if factor is not None:
        output = per_group(output, factor)
    if statistics == "given":
        assert mean is not None
        assert variance is not None
        shape = (-1, *(1,) * (output.ndim - 2))
        output = (output - mean.view(shape)) * (variance.view(shape) + eps).rsqrt()
    elif statistics != "none":
        output = xf.channel_norm(output, statistics, eps)
    return xf.gain(output, gain) if gain is not None and gain_after else output


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


class _OffsetBlock(torch.autograd.Function):
    """Numerator and energy of a few kernel offsets: ``sum w h(t)`` and ``sum h(t)^2`` with ``t = (z - mean) * rate``.

    Only views of the input and one-channel maps are saved; the backward computes ``h(t)`` anew. It consists of
    differentiable operations throughout, so second derivatives come for free.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(
        filters: Tensor,
        mean: Tensor,
        rate: Tensor,
        robust: str | None,
        compute_dtype: torch.dtype,
        *shifted: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Filters (groups, C_out/groups, channels * offsets) on views (N, groups, channels, *positions)."""
        _, values = _bent(shifted, mean, rate, robust)
        energy = values.square().sum((2, 3))
        columns, unit = in_range(values.flatten(4).flatten(2, 3), compute_dtype)
        total = (filters.to(compute_dtype) @ columns).to(mean.dtype) * unit
        return total.flatten(1, 2).unflatten(2, energy.shape[2:]), energy

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save the inputs as they are: the shifted ones are views of one tensor."""
        filters, mean, rate, ctx.robust, ctx.compute_dtype, *shifted = inputs
        ctx.save_for_backward(filters, mean, rate, *shifted)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        """Gradients of filters, mean, rate and every shifted view."""
        grad_total, grad_energy = grads
        filters, mean, rate, *shifted = ctx.saved_tensors
        with full_precision(mean.device):
            bent, values = _bent(shifted, mean, rate, ctx.robust)
            columns, peak = in_range(values.flatten(4).flatten(2, 3), ctx.compute_dtype)
            grad_total, unit = in_range(grad_total, ctx.compute_dtype)
            grad_total = grad_total.unflatten(1, (filters.shape[0], -1)).flatten(3)
            grad_filters = torch.einsum("ngop,ngkp->gok", grad_total, columns).to(mean.dtype) * unit * peak

            grad_values = (filters.mT.to(ctx.compute_dtype) @ grad_total).to(mean.dtype).view_as(values) * unit
            grad_values = grad_values + 2 * values * grad_energy[:, :, None, None]
            if ctx.robust is not None:
                grad_values = grad_values * xf.ROBUST_FUNCTIONS[ctx.robust].slope(bent)
            grad_rate = None
            if ctx.needs_input_grad[2]:
                grad_rate = _sum_to((grad_values * bent).sum(3), rate) / rate
            grad_shifted = grad_values * rate.unsqueeze(3)
            grad_mean = -_sum_to(grad_shifted.sum(3), mean)
        return grad_filters, grad_mean, grad_rate, None, None, *grad_shifted.unbind(3)


def _bent(
    shifted: tuple[Tensor, ...] | list[Tensor], mean: Tensor, rate: Tensor, robust: str | None
) -> tuple[Tensor, Tensor]:
    """``t`` and ``h(t)``, each (N, groups, channels, offsets, *positions)."""
    t = (torch.stack(list(shifted), 3) - mean.unsqueeze(3)) * rate.unsqueeze(3)
    return t, t if robust is None else xf.ROBUST_FUNCTIONS[robust].shape(t)


def _sum_to(grad: Tensor, like: Tensor) -> Tensor:
    """Sum a gradient over the axes along which the forward broadcast."""
    axes = [a for a in range(like.ndim) if like.shape[a] == 1 and grad.shape[a] != 1]
    return grad.sum(axes, keepdim=True) if axes else grad


BACKEND = Backend(
    name="dense",
    summary="convolutions and sums of one-channel maps, bounded memory; on every device",
    priority=10,
    similarity=similarity,
)
