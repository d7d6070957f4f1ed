"""Asking a backend directly, without a layer."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from xcnorm import ops


class Similarity(NamedTuple):
    """What a spec without stages is answered.

    Attributes:
        value: NCC or robust NCC, ``(N, C_out, *positions)``.
        scaled: The value times the norm of its centred patch, after phi if there is one: what a mask of zero leaves.
        deviation: Standard deviation of the patches before phi.
    """

    value: Tensor
    scaled: Tensor
    deviation: Tensor


def respond(
    input: Tensor,
    weight: Tensor,
    c: Tensor | None,
    correlation: ops.Correlation,
    *,
    compute_dtype: torch.dtype | None = None,
    backend: str | None = None,
    **stages: Any,
) -> ops.Response:
    """A backend's answer; no stage but those that are given."""
    chosen, _ = ops.choose(input, correlation, backend)
    return chosen.respond(input, weight, ops.Spec(correlation, compute_dtype or input.dtype, c=c, **stages))


def similarity(input: Tensor, weight: Tensor, c: Tensor | None, correlation: ops.Correlation, **how: Any) -> Similarity:
    value, deviation = respond(input, weight, c, correlation, **how)
    scaled, _ = respond(input, weight, c, correlation, mask=mask(weight, correlation, -1e4), **how)
    return Similarity(value, scaled, deviation)


def half_masked(input: Tensor, weight: Tensor, c: Tensor | None, correlation: ops.Correlation, **how: Any) -> Tensor:
    """The mean of both values of a similarity: a function of all that a backend has to differentiate."""
    return respond(input, weight, c, correlation, mask=mask(weight, correlation, 0.0), **how).output


def mask(weight: Tensor, correlation: ops.Correlation, bias: float) -> tuple[Tensor, Tensor]:
    """A mask that is the same everywhere."""
    groups = correlation.groups
    return weight.new_zeros(groups, 1, *(3 for _ in correlation.kernel)), weight.new_full((groups,), bias)
