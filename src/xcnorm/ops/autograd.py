"""Functions with a gradient of their own: how they are called, and how they are differentiated twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from xcnorm.ops.spec import full_precision


def apply(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """``function.apply(*arguments)``, traceable whether or not anybody wants a gradient.

    Where nobody does, torch.compile inlines the forward, and one that takes a variable number of arguments and keeps
    its context apart gets them shifted by one. There the forward is all there is to run anyway.
    """
    wanted = torch.is_grad_enabled() and any(isinstance(a, Tensor) and a.requires_grad for a in arguments)
    if torch.compiler.is_dynamo_compiling() and not wanted:
        return function.forward(*arguments)
    return function.apply(*arguments)


def through_formula(
    formula: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor | None], grads: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """Gradients of the inputs, differentiable themselves.

    Args:
        formula: What the forward computes, in plain torch.
        inputs: Its arguments.
        grads: Gradients of what it answers.
    """
    # One argument may be computed from another: behind a view of its own, each is a variable of its own.
    views = [None if input is None else input.view_as(input) for input in inputs]
    wanted = [view for view in views if view is not None and view.requires_grad]
    # A backward may be called inside autocast.
    with full_precision(wanted[0].device):
        pairs = [
            (output, grad)
            for output, grad in zip(formula(*views), grads, strict=True)
            if grad is not None and output.requires_grad
        ]
        outputs, grads = zip(*pairs, strict=True)
        found = iter(torch.autograd.grad(outputs, wanted, grads, create_graph=True, allow_unused=True))
    return [next(found) if view is not None and view.requires_grad else None for view in views]
