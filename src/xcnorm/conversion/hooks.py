"""Hooks of a layer, carried over to what takes its place."""

from __future__ import annotations

from torch import nn

_DICTIONARIES = (
    "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs", "_backward_hooks", "_backward_pre_hooks",
)  # fmt: skip


def has_hooks(module: nn.Module) -> bool:
    """Whether something happens before or after a module runs."""
    return any(getattr(module, name) for name in _DICTIONARIES)


def carry_hooks(before: nn.Module, after: nn.Module) -> str:
    """Let a module have the hooks of another, and say so.

    They share the hooks from then on, so that a handle that the user kept still removes one.
    """
    remarks = []
    if has_hooks(before):
        remarks.append("hooks moved along")
    for name in (*_DICTIONARIES, "_is_full_backward_hook"):
        setattr(after, name, getattr(before, name))
    if any(each._backward_hooks or each._post_accumulate_grad_hooks for each in before.parameters(recurse=False)):
        remarks.append("hooks on the gradient of its parameters left behind")
    return "".join(f"; {remark}" for remark in remarks)
