"""The same numbers from ordinary convolutions and box sums, in bounded memory.

NCC is one convolution with centred, unit-norm filters (the patch mean drops out because the filters are centred)
over a divisor that comes from box sums of one-channel maps.

Robust NCC has no such short cut, because phi acts after the patch was centred: patch mean and deviation again
come from box sums, then the kernel's offsets are walked through in small blocks. Each block recomputes its values
in the backward, so that nothing of size K*K*C_in*H*W is ever stored.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import xcnorm.functional as xf
from xcnorm.functional.correlation import robust_floor
from xcnorm.ops.autograd import apply
from xcnorm.ops.backend import Backend
from xcnorm.ops.correlation import Correlation, Similarity
from xcnorm.ops.precision import full_precision, in_range
from xcnorm.ops.product import product


def similarity(
    input: Tensor, weight: Tensor, c: Tensor | None, spec: Correlation, compute_dtype: torch.dtype
) -> Similarity:
    """Similarity from convolutions and box sums; see `xcnorm.ops.similarity`."""
    weight = xf.normalise_weight(weight)
    if not spec.kernel:
        return _vectors(input, weight, c, spec, compute_dtype)
    # One number per image and per set of channels that is centred together, taken before padding and subtracted after
    # it, cancels exactly in every centred patch. It keeps the convolution accurate for inputs far from zero.
    together = input.shape[1] if spec.channelwise else spec.groups
    level = input.detach().unflatten(1, (together, -1)).flatten(2).mean(2)
    grouped = spec.pad(input).unflatten(1, (spec.groups, -1))
    grouped = grouped - level.unflatten(1, (spec.groups, -1))[(..., *(None,) * len(spec.kernel))]
    if spec.robust is None and not spec.channelwise:
        return _plain(grouped, weight, spec, compute_dtype)
    return _by_offsets(grouped, weight, c, spec, compute_dtype)


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


def _plain(grouped: Tensor, weight: Tensor, spec: Correlation, compute_dtype: torch.dtype) -> Similarity:
    _, variance = _moments(grouped, spec)
    deviation = (variance + spec.eps).sqrt()
    norm = deviation * math.sqrt(weight[0].numel())
    value = product(grouped.flatten(1, 2), weight, spec, compute_dtype)
    return Similarity(_per_group(value, norm.reciprocal()), norm, deviation)


def _by_offsets(
    grouped: Tensor, weight: Tensor, c: Tensor | None, spec: Correlation, compute_dtype: torch.dtype
) -> Similarity:
    # mean and rate have shape (N, groups, channels or 1, *positions): the values that reach phi's shape h are
    # t = (z - mean) * rate, and c * h(t) is phi. The factor c cancels between numerator and norm.
    if spec.channelwise:
        mean, variance = _moments(grouped.flatten(1, 2).unsqueeze(2), spec)
        mean, variance = (m.unflatten(1, grouped.shape[1:3]) for m in (mean, variance))
        rate = (variance + spec.eps).rsqrt()
        deviation = ((variance * rate.square()).mean(2) + spec.eps).sqrt()
    else:
        mean, variance = (m.unsqueeze(2) for m in _moments(grouped, spec))
        rate = torch.ones_like(mean[:1, :1, :1])
        deviation = (variance[:, :, 0] + spec.eps).sqrt()

    if spec.robust is None:
        floor = torch.full_like(deviation[:1, :1], spec.eps)
        scale = torch.ones_like(floor)
    else:
        assert c is not None
        scale = c * deviation if spec.per_patch else c.expand_as(deviation[:1, :1])
        rate = rate / scale.unsqueeze(2)
        floor = robust_floor(scale, spec.robust, spec.eps) / scale.square()

    total, energy = None, None
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
    norm = (energy + weight[0].numel() * floor).sqrt()
    return Similarity(_per_group(total, norm.reciprocal()), norm * scale, deviation)


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
        start = at * dilation
        view = view[(slice(None),) * axis + (slice(start, start + (count - 1) * stride + 1, stride),)]
    return view


def _moments(grouped: Tensor, spec: Correlation) -> tuple[Tensor, Tensor]:
    """Mean and variance of every patch of ``(N, groups, channels, *sizes)``, each ``(N, groups, *positions)``.

    The variance is that of the channels at each position, averaged, plus that of their mean across positions. Both are
    sums of squares of differences: the difference of two large squares would drown the texture beside a bright edge.
    """
    level = grouped.mean(2)
    mean = _box(level, spec)
    within = _box((grouped - level.unsqueeze(2)).square().mean(2), spec)
    windows = level
    for axis, (kernel, stride, dilation) in enumerate(
        zip(spec.kernel, spec.stride, spec.dilation, strict=True), start=2
    ):
        windows = windows.unfold(axis, dilation * (kernel - 1) + 1, stride)[..., ::dilation]
    return mean, within + apply(_Spread, windows, mean)


def _box(maps: Tensor, spec: Correlation) -> Tensor:
    """Mean over the kernel's window of each channel of ``(N, channels, *sizes)``."""
    if all(k == 1 for k in spec.kernel) and all(s == 1 for s in spec.stride):
        return maps
    rank = len(spec.kernel) - 1
    if all(d == 1 for d in spec.dilation):
        pooled: Tensor = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[rank](maps, spec.kernel, spec.stride)
        return pooled
    # Pooling knows no dilation; on one channel a convolution costs little.
    channels = maps.shape[1]
    ones = maps.new_full((channels, 1, *spec.kernel), 1 / math.prod(spec.kernel))
    convolved: Tensor = (F.conv1d, F.conv2d, F.conv3d)[rank](maps, ones, None, spec.stride, 0, spec.dilation, channels)
    return convolved


def _per_group(values: Tensor, factor: Tensor) -> Tensor:
    """Scale the channels of each group of ``(N, C_out, *positions)`` by ``(N, groups, *positions)``."""
    if factor.shape[1] == 1:
        return values * factor
    return (values.unflatten(1, (factor.shape[1], -1)) * factor.unsqueeze(2)).flatten(1, 2)


class _Spread(torch.autograd.Function):
    """Mean square distance of windows ``(N, groups, *positions, *kernel)`` from ``mean``, without storing distances."""

    generate_vmap_rule = True

    @staticmethod
    def forward(windows: Tensor, mean: Tensor) -> Tensor:
        """One number per position."""
        return _distances(windows, mean).square().mean(_kernel_axes(windows))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save the inputs as they are: the windows are a view."""
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor]:
        """Gradients of windows and mean."""
        windows, mean = ctx.saved_tensors
        axes = _kernel_axes(windows)
        size = windows.shape[axes[0] :].numel()
        grad = grads[0][(..., *(None,) * len(axes))] * _distances(windows, mean) * (2 / size)
        return grad, -grad.sum(axes)


def _kernel_axes(windows: Tensor) -> list[int]:
    return list(range((windows.ndim + 2) // 2, windows.ndim))


def _distances(windows: Tensor, mean: Tensor) -> Tensor:
    return windows - mean[(..., *(None,) * len(_kernel_axes(windows)))]


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
    summary="convolutions and box sums, bounded memory; the default",
    priority=10,
    similarity=similarity,
)
