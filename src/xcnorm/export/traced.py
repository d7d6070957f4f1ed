"""Traces: a fused network as a program of torch.export."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from xcnorm.errors import UserError
from xcnorm.ops.dispatch import VARIABLE


def trace(network: nn.Module, images: Tensor, any_size: bool) -> ExportedProgram:
    """Trace a network for any number of images.

    Args:
        network: In evaluation mode.
        images: Two of the size that it was made for.
        any_size: Whether images may have other sizes. That the network then does the same is to be checked.

    Raises:
        UserError: It cannot be traced.
    """
    shapes: dict[int, Any] = {0: Dim("batch", min=1)}
    if any_size:
        shapes |= {2: Dim.DYNAMIC, 3: Dim.DYNAMIC}
    try:
        with torch.no_grad(), _plain_operators():
            return torch.export.export(network, (images,), dynamic_shapes=(shapes,), strict=False)
    except Exception as error:  # of many kinds, by whatever the network does
        raise UserError(f"torch.export cannot trace this network: {first_line(error)}") from error


@contextmanager
def _plain_operators() -> Iterator[None]:
    """Within the block layers compute by torch's own operators, whatever the device: no kernel of ours is in a file."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = "plain"
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
