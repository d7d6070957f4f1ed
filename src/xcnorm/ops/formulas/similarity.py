"""The similarity from convolutions and sums of one-channel maps.

NCC is one convolution with centred, unit-norm filters (the patch mean drops out because the filters are centred)
over a divisor that comes from sums along one-channel maps.

Robust NCC has no such short cut, because phi acts after the patch was centred: patch mean and deviation again
come from one-channel maps, then the kernel's offsets are taken in small blocks. Each block recomputes its
values in the backward, so that nothing of size K*K*C_in*H*W is ever stored.
"""

from __future__ import annotations

import torch
from torch import Tensor

import xcnorm.functional as xf
from xcnorm.ops.formulas.ncc import (
    Quotient,
    channel_moments,
    level_of,
    padded,
    patch_moments,
    patch_statistics,
    plain_quotient,
)
from xcnorm.ops.formulas.offsets import by_offsets
from xcnorm.ops.formulas.product import product
from xcnorm.ops.spec import Correlation


def similarity(
    input: Tensor, weight: Tensor, c: Tensor | None, correlation: Correlation, compute_dtype: torch.dtype
) -> Quotient:
    """Numerator and divisor of the similarity of every patch of an input to every filter.

    Args:
        input: ``(N, C_in, *sizes)``, not padded yet; float32 or float64.
        weight: Filters ``(C_out, C_in / groups, *kernel)``, raw; same dtype.
        c: Scale of the robust function; None without one.
        correlation: The similarity, without the data.
        compute_dtype: Dtype of the large products; statistics keep the dtype of ``input``.
    """
    weight = xf.normalise_weight(weight)
    if not correlation.kernel:
        return _vectors(input, weight, c, correlation, compute_dtype)
    level = level_of(input, input.shape[1] if correlation.channelwise else correlation.groups)
    moments = channel_moments(input, level)
    if correlation.robust is None and not correlation.channelwise:
        total = product(padded(input, level, correlation), weight, correlation, compute_dtype)
        return plain_quotient(total, patch_moments(moments, level, correlation), weight, correlation)
    patches = patch_statistics(moments, level, c, correlation)
    total, energy = by_offsets(
        padded(input, level, correlation), weight, patches.mean, patches.rate, correlation, compute_dtype
    )
    return patches.quotient(total, energy, weight[0].numel())


def _vectors(
    input: Tensor, weight: Tensor, c: Tensor | None, correlation: Correlation, compute_dtype: torch.dtype
) -> Quotient:
    """Dense layers: the patch is the whole vector, so nothing is shared between patches and there is no short cut."""
    deviation = xf.patch_deviation(input, correlation.eps)
    values = input - input.mean(-1, keepdim=True)
    if correlation.robust is None:
        norm = xf.patch_norm(input, correlation.eps)
    else:
        assert c is not None
        c = c * deviation if correlation.per_patch else c
        values = xf.robust_function(correlation.robust)(values, c)
        norm = xf.robust_patch_norm(input, c, correlation.robust, correlation.eps)
    # Divided before the product, so that float16 can hold it.
    total = product(values / norm, weight, correlation, compute_dtype)
    return Quotient(total, torch.ones_like(norm), norm, deviation)
