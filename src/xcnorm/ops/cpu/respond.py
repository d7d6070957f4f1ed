"""A whole layer on the CPU."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

import xcnorm.functional as xf
from xcnorm.functional.stages import mask_factor
from xcnorm.ops import dense
from xcnorm.ops.autograd import apply
from xcnorm.ops.correlation import Correlation, Similarity
from xcnorm.ops.cpu.blocks import blocks
from xcnorm.ops.cpu.columns import Columns
from xcnorm.ops.cpu.convolution import Convolution
from xcnorm.ops.cpu.filters import Filters
from xcnorm.ops.cpu.finish import Finishing, Options, finish_into
from xcnorm.ops.cpu.moments import ChannelMoments, channel_moments
from xcnorm.ops.cpu.padding import new_maps, padded
from xcnorm.ops.finish import Finish, Response
from xcnorm.ops.product import product


def similarity(
    input: Tensor, weight: Tensor, c: Tensor | None, spec: Correlation, compute_dtype: torch.dtype
) -> Similarity:
    """Similarity in the dtype of the input; see `xcnorm.ops.similarity`."""
    return _quotient(input, apply(Filters, weight), c, spec).similarity()


def respond(
    input: Tensor, weight: Tensor, c: Tensor | None, spec: Correlation, stages: Finish, compute_dtype: torch.dtype
) -> Response:
    """Similarity and the stages after it."""
    filters = apply(Filters, weight)
    settings = stages.tau, stages.gain, stages.mean, stages.variance
    options = Options(stages.rectify, stages.gain_after, stages.statistics, stages.eps)
    if torch.is_grad_enabled() or stages.statistics == "batch":
        quotient = _quotient(input, filters, c, spec)
        rate, factor = _rate_and_factor(quotient, stages, filters)
        output, mean, variance = apply(Finishing, options, quotient.product, rate, factor, *settings)
        return Response(output, quotient.deviation, mean, variance)

    # Nobody wants a gradient: no numerator has to be kept, so it is made and used up a block at a time.
    quotients, deviation = _quotients(input, filters, c, spec)
    output = new_maps(input, weight.shape[0], deviation.shape[2:])
    for block in blocks(input.shape[0], output[0].numel()):
        quotient = quotients(block)
        rate, factor = _rate_and_factor(quotient, stages, filters)
        finish_into(output[block], options, quotient.product, rate, factor, *settings)
    return Response(output, deviation, output.new_empty(0), output.new_empty(0))


def _quotient(input: Tensor, filters: Tensor, c: Tensor | None, spec: Correlation) -> dense.Quotient:
    level = dense.level_of(input, input.shape[1] if spec.channelwise else spec.groups)
    if spec.robust is None and not spec.channelwise:
        total, *moments = apply(Convolution, input, level, filters, spec)
        return dense.plain_quotient(total, dense.patch_moments(dense.Moments(*moments), level, spec), filters, spec)
    maps = dense.robust_maps(dense.Moments(*apply(ChannelMoments, input, level)), level, c, spec)
    total, energy = apply(Columns, input, level, filters, maps.mean, maps.rate, spec)
    return maps.quotient(total, energy, filters[0].numel())


def _quotients(
    input: Tensor, filters: Tensor, c: Tensor | None, spec: Correlation
) -> tuple[Callable[[slice], dense.Quotient], Tensor]:
    """`_quotient` of any block of images, without a gradient, and the deviation of all patches."""
    level = dense.level_of(input, input.shape[1] if spec.channelwise else spec.groups)
    moments = channel_moments(input, level)
    if spec.robust is None and not spec.channelwise:
        whole = dense.plain_quotient(level, dense.patch_moments(moments, level, spec), filters, spec)

        def plain(block: slice) -> dense.Quotient:
            total = product(padded(input[block], level[block], spec), filters, spec, input.dtype)
            return dense.Quotient(total, *(map[block] for map in whole[1:]))

        return plain, whole.deviation

    maps = dense.robust_maps(moments, level, c, spec)

    def robust(block: slice) -> dense.Quotient:
        part = dense.RobustMaps(*(map if map.shape[0] == 1 else map[block] for map in maps))
        total, energy = apply(Columns, input[block], part.level, filters, part.mean, part.rate, spec)
        return part.quotient(total, energy, filters[0].numel())

    return robust, maps.deviation


def _rate_and_factor(quotient: dense.Quotient, stages: Finish, filters: Tensor) -> tuple[Tensor, Tensor | None]:
    factor = None
    if stages.mask is not None:
        mask = xf.attention_mask(quotient.norm / math.sqrt(filters[0].numel()), *stages.mask)
        factor = mask_factor(quotient.norm, mask)
    return quotient.divisor.reciprocal(), factor
