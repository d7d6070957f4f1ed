"""Ordinary torch on the CPU, arranged for its caches: in place, without large copies, a few images at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import xcnorm.functional as xf
from xcnorm.functional.correlation import WEIGHT_FLOOR
from xcnorm.functional.mask import attention_factor
from xcnorm.ops.autograd import through_formula
from xcnorm.ops.cpu.blockwise import blocks, by_sets, channel_moments, moments_gradient, new_maps, padded
from xcnorm.ops.cpu.columns import Columns
from xcnorm.ops.cpu.convolution import Convolution
from xcnorm.ops.cpu.finish import Finishing, FinishOptions, finish_into
from xcnorm.ops.dispatch import Backend, register_backend
from xcnorm.ops.formulas import ncc
from xcnorm.ops.formulas.ncc import (
    Moments,
    PatchStatistics,
    Quotient,
    convolve,
    level_of,
    patch_moments,
    patch_statistics,
    plain_quotient,
)
from xcnorm.ops.spec import ChannelNorm, Correlation, Response, Spec, full_precision


def respond(input: Tensor, weight: Tensor, spec: Spec) -> Response:
    """Similarity and the stages after it."""
    norm = spec.norm or ChannelNorm()
    filters = weight if spec.unit_filters else _Filters.apply(weight)  # type: ignore[no-untyped-call]
    settings = spec.tau, spec.gain, norm.mean, norm.variance
    options = FinishOptions(spec.rectify, spec.gain_after, norm.statistics, norm.eps)
    if torch.is_grad_enabled() or norm.statistics == "batch":
        quotient = _quotient(input, filters, spec.c, spec.correlation)
        rate, factor = _rate_and_factor(quotient, spec, filters)
        output, mean, variance = Finishing.apply(options, quotient.product, rate, factor, *settings)  # type: ignore[no-untyped-call]
        deviation = quotient.deviation.detach()
        if norm.statistics == "batch":
            spec.averages.move_norm(mean, variance, output.numel() // output.shape[1])
    else:
        # Nobody wants a gradient: no numerator has to be kept, so it is made and used up a block at a time.
        quotients, deviation = _quotients(input, filters, spec.c, spec.correlation)
        output = new_maps(input, weight.shape[0], deviation.shape[2:])
        for block in blocks(input.shape[0], output[0].numel()):
            quotient = quotients(block)
            rate, factor = _rate_and_factor(quotient, spec, filters)
            finish_into(output[block], options, quotient.product, rate, factor, *settings)
    spec.averages.move_c(deviation)
    return Response(output, deviation)


def _quotient(input: Tensor, filters: Tensor, c: Tensor | None, correlation: Correlation) -> Quotient:
    level = level_of(input, input.shape[1] if correlation.channelwise else correlation.groups)
    if correlation.robust is None and not correlation.channelwise:
        total, *moments = Convolution.apply(input, level, filters, correlation)  # type: ignore[no-untyped-call]
        return plain_quotient(total, patch_moments(Moments(*moments), level, correlation), filters, correlation)
    patches = patch_statistics(Moments(*_ChannelMoments.apply(input, level)), level, c, correlation)  # type: ignore[no-untyped-call]
    total, energy = Columns.apply(input, level, filters, patches.mean, patches.rate, correlation)  # type: ignore[no-untyped-call]
    return patches.quotient(total, energy, filters[0].numel())


def _quotients(
    input: Tensor, filters: Tensor, c: Tensor | None, correlation: Correlation
) -> tuple[Callable[[slice], Quotient], Tensor]:
    """`_quotient` of any block of images, without a gradient, and the deviation of all patches."""
    level = level_of(input, input.shape[1] if correlation.channelwise else correlation.groups)
    moments = channel_moments(input, level)
    if correlation.robust is None and not correlation.channelwise:
        whole = plain_quotient(level, patch_moments(moments, level, correlation), filters, correlation)

        def plain(block: slice) -> Quotient:
            total = convolve(padded(input[block], level[block], correlation), filters, correlation)
            return Quotient(total, *(map[block] for map in whole[1:]))

        return plain, whole.deviation

    patches = patch_statistics(moments, level, c, correlation)

    def robust(block: slice) -> Quotient:
        part = PatchStatistics(*(map if map.shape[0] == 1 else map[block] for map in patches))
        total, energy = Columns.apply(input[block], part.level, filters, part.mean, part.rate, correlation)  # type: ignore[no-untyped-call]
        return part.quotient(total, energy, filters[0].numel())

    return robust, patches.deviation


def _rate_and_factor(quotient: Quotient, spec: Spec, filters: Tensor) -> tuple[Tensor, Tensor | None]:
    factor = None if spec.mask is None else attention_factor(quotient.norm, *spec.mask, filters[0].numel())
    return quotient.divisor.reciprocal(), factor


class _Filters(torch.autograd.Function):
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


class _ChannelMoments(torch.autograd.Function):
    """`ncc.channel_moments`; the backward subtracts the level anew."""

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
            return tuple(through_formula(ncc.channel_moments, (input, level), grads))
        of_mean, of_variance = grads
        grad = torch.empty_like(input)
        values, level = by_sets(input, level)
        slope, offset = moments_gradient(of_mean, of_variance, mean, values.shape[2])
        torch.sub(values, level, out=grad.unflatten(1, values.shape[1:3])).mul_(slope).add_(offset)
        return grad, None


def _unsupported(input: Tensor, correlation: Correlation) -> str | None:
    if input.device.type != "cpu":
        return f"it runs on the CPU, the input is on {input.device.type}"
    if input.dtype != torch.float32:
        return f"it computes in float32, the input is {input.dtype}"
    if not correlation.kernel:
        return "dense layers are a matrix product already"
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return "a compiler or a transform of torch.func wants to look inside"
    if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        return "a trace would keep this batch's blocks of images"
    if input.shape[0] == 0:
        return "the batch is empty"
    return None


register_backend(
    Backend(
        name="cpu",
        summary="in place and in blocks that fit a CPU's caches",
        priority=15,
        respond=respond,
        unsupported=_unsupported,
    )
)
