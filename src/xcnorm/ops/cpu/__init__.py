"""Ordinary torch on the CPU, arranged for its caches: in place, without large copies, a few images at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from xcnorm.ops.backend import Backend
from xcnorm.ops.correlation import Correlation
from xcnorm.ops.cpu.respond import respond, similarity


def _unsupported(input: Tensor, spec: Correlation) -> str | None:
    if input.device.type != "cpu":
        return f"it runs on the CPU, the input is on {input.device.type}"
    if input.dtype != torch.float32:
        return f"it computes in float32, the input is {input.dtype}"
    if not spec.kernel:
        return "dense layers are a matrix product already"
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return "a compiler or a transform of torch.func wants to look inside"
    if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        return "a trace would keep this batch's blocks of images"
    if input.shape[0] == 0:
        return "the batch is empty"
    return None


BACKEND = Backend(
    name="cpu",
    summary="in place and in blocks that fit a CPU's caches",
    priority=15,
    similarity=similarity,
    respond=respond,
    unsupported=_unsupported,
)
