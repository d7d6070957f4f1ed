"""Fused GPU kernels in Triton: the correlation as one implicit matrix product, and everything after it in one pass.

Nothing here imports Triton before a kernel runs.
"""

from __future__ import annotations

import importlib.util
import os

import torch
from torch import Tensor

from xcnorm.ops.backend import Backend
from xcnorm.ops.correlation import Correlation
from xcnorm.ops.triton.respond import respond, similarity

# Triton's interpreter runs kernels on the CPU, slowly; that is how they are tested without a GPU.
_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
_INSTALLED = importlib.util.find_spec("triton") is not None
_LIMIT = 2**31
_ROBUST = (None, "welsch", "welsch_signed", "welsch_influence", "huber", "cauchy", "tukey")  # those of `robust.bend`


def _unavailable() -> str | None:
    if not _INSTALLED:
        return "Triton is not installed; torch for CUDA brings it"
    if not _INTERPRETED and not torch.cuda.is_available():
        return "there is no CUDA device"
    return None


def _unsupported(input: Tensor, spec: Correlation) -> str | None:
    if not input.is_cuda and not _INTERPRETED:
        return f"it runs on CUDA devices, the input is on {input.device.type}"
    if input.dtype == torch.float64:
        return "it computes in float32 at most, the input is float64"
    if not torch.compiler.is_compiling() and torch._C._functorch.is_functorch_wrapped_tensor(input):
        return "torch.func cannot see into it"
    if spec.channelwise:
        return "channelwise=True standardises every channel of a patch on its own"
    if spec.robust not in _ROBUST:
        return f"its kernels do not have the robust function {spec.robust!r}"
    if len(spec.kernel) > 2:
        return "it knows images and signals, not volumes"
    if input.shape[1:].numel() >= _LIMIT or input.shape[0] * input.shape[2:].numel() >= _LIMIT:
        return "one image, or the positions of all, have 2^31 values or more"
    return None


BACKEND = Backend(
    name="triton",
    summary="fused GPU kernels",
    priority=20,
    similarity=similarity,
    respond=respond,
    unavailable=_unavailable,
    unsupported=_unsupported,
)
