"""Calling a `torch.autograd.Function` so that it also works where a compiler traces the call."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def apply(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """``function.apply(*arguments)``, traceable whether or not anybody wants a gradient.

    Where nobody does, torch.compile inlines the forward, and one that takes a variable number of arguments and keeps
    its context apart gets them shifted by one. There the forward is all there is to run anyway.
    """
    wanted = torch.is_grad_enabled() and any(isinstance(a, Tensor) and a.requires_grad for a in arguments)
    if torch.compiler.is_dynamo_compiling() and not wanted:
        return function.forward(*arguments)
    return function.apply(*arguments)
