"""Labels that can be drawn, and pieces of a batch that fit the processor's cache."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from xcnorm.errors import UserError


def check_labels(labels: Tensor, classes: int, what: str = "labels") -> None:
    """Refuse anything but a row of int64 numbers below `classes`."""
    if labels.ndim != 1 or labels.dtype != torch.int64:
        raise UserError(f"{what} must be int64 of shape (N,), not {labels.dtype} of {tuple(labels.shape)}")
    wrong = labels[(labels < 0) | (labels >= classes)]
    if len(wrong):
        raise UserError(f"{what} must be from 0 to {classes - 1}, not {int(wrong[0])}")


def pieces(count: int, size: int) -> Iterator[slice]:
    """Cut 0 .. count - 1 into slices of at most `size`."""
    for start in range(0, count, size):
        yield slice(start, start + size)
