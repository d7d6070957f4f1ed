"""The obvious implementation: cut every patch out, then apply `xcnorm.functional` to it.

Slow and hungry (K*K times the input is stored for the backward), exact in float64, and short enough to be
checked by eye. Every other backend is tested against it.
"""

from __future__ import annotations

import torch
from torch import Tensor

import xcnorm.functional as xf
from xcnorm.ops.dispatch import Backend, register_backend
from xcnorm.ops.formulas import chain
from xcnorm.ops.formulas.ncc import Quotient, pad
from xcnorm.ops.spec import Correlation, Response, Spec


def cut_patches(input: Tensor, correlation: Correlation) -> Tensor:
    """All patches of ``(N, C, *sizes)`` as ``(N, *positions, groups, alpha)``, channel-major like a filter."""
    patches = pad(input, correlation)
    for axis, (kernel, stride, dilation) in enumerate(
        zip(correlation.kernel, correlation.stride, correlation.dilation, strict=True), start=2
    ):
        patches = patches.unfold(axis, dilation * (kernel - 1) + 1, stride)[..., ::dilation]
    rank = len(correlation.kernel)
    return patches.movedim(1, rank + 1).flatten(rank + 1).unflatten(-1, (correlation.groups, -1))


def respond(input: Tensor, weight: Tensor, spec: Spec) -> Response:
    """Similarity by definition, then stage by stage; takes no short cut for the compute dtype."""
    similarity, norm, deviation = _similarity(input.to(weight.dtype), weight, spec.c, spec.correlation)
    quotient = Quotient(similarity, torch.ones_like(norm), norm, deviation)
    return chain.respond(quotient, weight[0].numel(), spec)


def _similarity(
    input: Tensor, weight: Tensor, c: Tensor | None, correlation: Correlation
) -> tuple[Tensor, Tensor, Tensor]:
    """The similarity, the norm of the patches and their deviation, each with the channels on axis 1."""
    patches = cut_patches(input, correlation)
    if correlation.channelwise:
        patches = xf.standardise_channels(patches, input.shape[1] // correlation.groups, correlation.eps)
    deviation = xf.patch_deviation(patches, correlation.eps)
    if c is not None and correlation.per_patch:
        c = c * deviation

    values, norms = [], []
    for group, filters in enumerate(weight.flatten(1).chunk(correlation.groups)):
        z = patches[..., group, :]
        if correlation.robust is None:
            values.append(xf.ncc(z, filters, correlation.eps))
            norms.append(xf.patch_norm(z, correlation.eps))
        else:
            assert c is not None
            scale = c[..., group, :] if correlation.per_patch else c
            values.append(xf.robust_ncc(z, filters, scale, correlation.robust, correlation.eps))
            norms.append(xf.robust_patch_norm(z, scale, correlation.robust, correlation.eps))
    return torch.cat(values, -1).movedim(-1, 1), torch.cat(norms, -1).movedim(-1, 1), deviation[..., 0].movedim(-1, 1)


register_backend(
    Backend(
        name="reference",
        summary="unfold and the printed equations, for every case; slow",
        priority=0,
        respond=respond,
    )
)
