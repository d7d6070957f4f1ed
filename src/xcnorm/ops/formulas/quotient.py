"""A similarity as a quotient: from products and the statistics of patches to numerator and divisor."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from xcnorm.functional.correlation import robust_floor
from xcnorm.ops.formulas.patches import Moments, patch_moments
from xcnorm.ops.spec import Correlation


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


def plain_quotient(total: Tensor, moments: Moments, weight: Tensor, spec: Correlation) -> Quotient:
    """NCC from the product of padded input and filters, and the moments of the patches."""
    deviation = (moments.variance + spec.eps).sqrt()
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


def patch_statistics(moments: Moments, level: Tensor, c: Tensor | None, spec: Correlation) -> PatchStatistics:
    """The statistics for robust NCC, channelwise or not, and for channelwise NCC."""
    mean, variance = (m.unflatten(1, (spec.groups, -1)) for m in patch_moments(moments, level, spec))
    if spec.channelwise:
        rate = (variance + spec.eps).rsqrt()
        deviation = ((variance * rate.square()).mean(2) + spec.eps).sqrt()
    else:
        rate = mean.new_ones([1] * mean.ndim)
        deviation = (variance[:, :, 0] + spec.eps).sqrt()

    if spec.robust is None:
        floor = deviation.new_full([1] * deviation.ndim, spec.eps)
        return PatchStatistics(level, mean, rate, torch.ones_like(floor), floor, deviation)
    assert c is not None
    scale = c * deviation if spec.per_patch else c.view([1] * deviation.ndim)
    floor = robust_floor(scale, spec.robust, spec.eps) / scale.square()
    return PatchStatistics(level, mean, rate / scale.unsqueeze(2), scale, floor, deviation)


def per_group(values: Tensor, factor: Tensor) -> Tensor:
    """Scale the channels of each group of ``(N, C_out, *positions)`` by ``(N, groups, *positions)``."""
    if factor.shape[1] == 1:
        return values * factor
    return (values.unflatten(1, (factor.shape[1], -1)) * factor.unsqueeze(2)).flatten(1, 2)
