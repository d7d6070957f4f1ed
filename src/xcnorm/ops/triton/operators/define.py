"""What the definitions of operators share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor


def define(name: str, schema: str, changes: Sequence[str] = ()) -> Callable[[Callable[..., Any]], Any]:
    """Register a function as an operator of torch, which changes some of its arguments in place or none."""
    return torch.library.custom_op(f"xcnorm::{name}", mutates_args=changes, schema=schema)


def second_derivatives(
    formula: Callable[..., Sequence[Tensor]],
    arguments: Sequence[Tensor | None],
    grads_out: Sequence[Tensor | None],
    grads: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """Differentiate a backward, through a formula that torch can differentiate twice.

    Args:
        formula: What the forward computes, in torch; takes the arguments that are not None.
        arguments: Of the forward.
        grads_out: Gradients of its outputs, as the backward took them.
        grads: Gradients of what the backward answered, one per argument; empty or None where it was not asked.

    Returns:
        Gradients of ``grads_out`` and of ``arguments``.
    """
    with torch.enable_grad():
        inputs = [None if a is None else a.detach().requires_grad_() for a in arguments]
        outer = [None if g is None else g.detach().requires_grad_() for g in grads_out]
        given = [a for a in inputs if a is not None]
        first = _grad(zip(formula(*given), outer, strict=True), given, create_graph=True)
        wanted = [g for a, g in zip(inputs, grads, strict=True) if a is not None]
        leaves = [t for t in (*outer, *inputs) if t is not None]
        second = iter(_grad(zip(first, wanted, strict=True), leaves))
    return [None if t is None else next(second) for t in (*outer, *inputs)]


def _grad(
    outputs: Iterable[tuple[Tensor | None, Tensor | None]], inputs: list[Tensor], *, create_graph: bool = False
) -> tuple[Tensor | None, ...]:
    """Gradients of the outputs that there are, each with the gradient that it is given."""
    pairs = [
        (output, grad.to(output.dtype))
        for output, grad in outputs
        if output is not None and output.requires_grad and grad is not None and grad.shape == output.shape
    ]
    return torch.autograd.grad(
        [output for output, _ in pairs],
        inputs,
        [grad for _, grad in pairs],
        create_graph=create_graph,
        allow_unused=True,
    )
