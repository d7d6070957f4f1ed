"""Products of patches to which phi was applied, block by block of the kernel's offsets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from xcnorm.functional import ROBUST_FUNCTIONS
from xcnorm.ops.autograd import apply
from xcnorm.ops.formulas.ncc import line
from xcnorm.ops.formulas.product import in_range
from xcnorm.ops.spec import Correlation, full_precision


def by_offsets(
    input: Tensor, weight: Tensor, mean: Tensor, rate: Tensor, correlation: Correlation, compute_dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Numerator and energy of `PatchStatistics.quotient` for a padded input, block by block of the kernel's offsets."""
    total, energy = None, None
    grouped = input.unflatten(1, (correlation.groups, -1))
    offsets = list(itertools.product(*map(range, correlation.kernel)))
    filters = weight.unflatten(0, (correlation.groups, -1)).flatten(3)
    for block in _blocks(len(offsets), grouped.shape[2], weight.shape[0] // correlation.groups):
        part = apply(
            _OffsetBlock,
            filters[..., block].flatten(2),
            mean,
            rate,
            correlation.robust,
            compute_dtype,
            *(_shifted(grouped, offset, correlation) for offset in offsets[block]),
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


def _shifted(grouped: Tensor, offset: tuple[int, ...], correlation: Correlation) -> Tensor:
    """The value at one kernel offset of every patch: a view of shape (N, groups, channels, *positions)."""
    counts = correlation.positions(grouped.shape[3:])
    view = grouped
    for axis, (at, count, stride, dilation) in enumerate(
        zip(offset, counts, correlation.stride, correlation.dilation, strict=True), start=3
    ):
        view = line(view, axis, at * dilation, count, stride)
    return view


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
        _, values = _apply_phi(shifted, mean, rate, robust)
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
            t, values = _apply_phi(shifted, mean, rate, ctx.robust)
            columns, peak = in_range(values.flatten(4).flatten(2, 3), ctx.compute_dtype)
            grad_total, unit = in_range(grad_total, ctx.compute_dtype)
            grad_total = grad_total.unflatten(1, (filters.shape[0], -1)).flatten(3)
            grad_filters = torch.einsum("ngop,ngkp->gok", grad_total, columns).to(mean.dtype) * unit * peak

            grad_values = (filters.mT.to(ctx.compute_dtype) @ grad_total).to(mean.dtype).view_as(values) * unit
            grad_values = grad_values + 2 * values * grad_energy[:, :, None, None]
            if ctx.robust is not None:
                grad_values = grad_values * ROBUST_FUNCTIONS[ctx.robust].slope(t)
            grad_rate = None
            if ctx.needs_input_grad[2]:
                grad_rate = _sum_to((grad_values * t).sum(3), rate) / rate
            grad_shifted = grad_values * rate.unsqueeze(3)
            grad_mean = -_sum_to(grad_shifted.sum(3), mean)
        return grad_filters, grad_mean, grad_rate, None, None, *grad_shifted.unbind(3)


def _apply_phi(
    shifted: tuple[Tensor, ...] | list[Tensor], mean: Tensor, rate: Tensor, robust: str | None
) -> tuple[Tensor, Tensor]:
    """``t`` and ``h(t)``, each (N, groups, channels, offsets, *positions)."""
    t = (torch.stack(list(shifted), 3) - mean.unsqueeze(3)) * rate.unsqueeze(3)
    return t, t if robust is None else ROBUST_FUNCTIONS[robust].shape(t)


def _sum_to(grad: Tensor, like: Tensor) -> Tensor:
    """Sum a gradient over the axes along which the forward broadcast."""
    axes = [a for a in range(like.ndim) if like.shape[a] == 1 and grad.shape[a] != 1]
    return grad.sum(axes, keepdim=True) if axes else grad
