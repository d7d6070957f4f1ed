"""Precision: how exactly a network computes, in training and in testing alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch


@contextmanager
def precision(name: str) -> Iterator[None]:
    """Whether matrix units may round to TF32 is a switch of the whole process; it is put back afterwards.

    Args:
        name: The experiment's ``run.precision``.
    """
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = name == "tf32"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def autocast(name: str, device: torch.device) -> AbstractContextManager[Any]:
    """Around a forward pass: half precision where the experiment asks for it.

    Args:
        name: The experiment's ``run.precision``.
        device: Where the network is.
    """
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(name)
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype)
