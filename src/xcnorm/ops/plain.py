"""Ordinary torch on every device: the shared formulas as they are, in bounded memory."""

from __future__ import annotations

from torch import Tensor

from xcnorm.ops.dispatch import Backend, register_backend
from xcnorm.ops.formulas import chain
from xcnorm.ops.formulas.similarity import similarity
from xcnorm.ops.spec import Response, Spec


def respond(input: Tensor, weight: Tensor, spec: Spec) -> Response:
    """Similarity, then stage by stage."""
    quotient = similarity(input.to(weight.dtype), weight, spec.c, spec.correlation, spec.compute_dtype)
    return chain.respond(quotient, weight[0].numel(), spec)


register_backend(
    Backend(
        name="plain",
        summary="convolutions and sums of one-channel maps, bounded memory; on every device",
        priority=10,
        respond=respond,
    )
)
