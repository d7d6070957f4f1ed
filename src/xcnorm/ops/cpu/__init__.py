"""Ordinary torch on the CPU, arranged for its caches: in place, without large copies, a few images at a time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from xcnorm.functional.mask import attention_factor
from xcnorm.ops.backend import Backend, register_backend
from xcnorm.ops.cpu.columns import Columns
from xcnorm.ops.cpu.convolution import Convolution
from xcnorm.ops.cpu.finish import Finishing, Options, finish_into
from xcnorm.ops.cpu.memory import blocks, new_maps, padded
from xcnorm.ops.cpu.sides import ChannelMoments, Filters, channel_moments
from xcnorm.ops.formulas.patches import Moments, level_of, patch_moments
from xcnorm.ops.formulas.product import convolve
from xcnorm.ops.formulas.quotient import PatchStatistics, Quotient, patch_statistics, plain_quotient
from xcnorm.ops.spec import ChannelNorm, Correlation, Response, Spec


def respond(input: Tensor, weight: Tensor, spec: Spec) -> Response:
    """Similarity and the stages after it."""
    norm = spec.norm or ChannelNorm()
    filters = Filters.apply(weight)
    settings = spec.tau, spec.gain, norm.mean, norm.variance
    options = Options(spec.rectify, spec.gain_after, norm.statistics, norm.eps)
    if torch.is_grad_enabled() or norm.statistics == "batch":
        quotient = _quotient(input, filters, spec.c, spec.correlation)
        rate, factor = _rate_and_factor(quotient, spec, filters)
        output, mean, variance = Finishing.apply(options, quotient.product, rate, factor, *settings)
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


def _quotient(input: Tensor, filters: Tensor, c: Tensor | None, spec: Correlation) -> Quotient:
    level = level_of(input, input.shape[1] if spec.channelwise else spec.groups)
    if spec.robust is None and not spec.channelwise:
        total, *moments = Convolution.apply(input, level, filters, spec)
        return plain_quotient(total, patch_moments(Moments(*moments), level, spec), filters, spec)
    patches = patch_statistics(Moments(*ChannelMoments.apply(input, level)), level, c, spec)
    total, energy = Columns.apply(input, level, filters, patches.mean, patches.rate, spec)
    return patches.quotient(total, energy, filters[0].numel())


def _quotients(
    input: Tensor, filters: Tensor, c: Tensor | None, spec: Correlation
) -> tuple[Callable[[slice], Quotient], Tensor]:
    """`_quotient` of any block of images, without a gradient, and the deviation of all patches."""
    level = level_of(input, input.shape[1] if spec.channelwise else spec.groups)
    moments = channel_moments(input, level)
    if spec.robust is None and not spec.channelwise:
        whole = plain_quotient(level, patch_moments(moments, level, spec), filters, spec)

        def plain(block: slice) -> Quotient:
            total = convolve(padded(input[block], level[block], spec), filters, spec)
            return Quotient(total, *(map[block] for map in whole[1:]))

        return plain, whole.deviation

    patches = patch_statistics(moments, level, c, spec)

    def robust(block: slice) -> Quotient:
        part = PatchStatistics(*(map if map.shape[0] == 1 else map[block] for map in patches))
        total, energy = Columns.apply(input[block], part.level, filters, part.mean, part.rate, spec)
        return part.quotient(total, energy, filters[0].numel())

    return robust, patches.deviation


def _rate_and_factor(quotient: Quotient, spec: Spec, filters: Tensor) -> tuple[Tensor, Tensor | None]:
    factor = None if spec.mask is None else attention_factor(quotient.norm, *spec.mask, filters[0].numel())
    return quotient.divisor.reciprocal(), factor


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
