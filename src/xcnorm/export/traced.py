"""Traces: a fused network as a program of torch.export, for any number of images and, where it can be, any size."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from xcnorm.errors import UserError
from xcnorm.ops.dispatch import VARIABLE

_SMALLEST = 2  # the size that it was made for, over the smallest one that an export promises to take


def trace(network: nn.Module, images: Tensor) -> tuple[ExportedProgram, bool]:
    """Trace a network.

    Args:
        network: In evaluation mode.
        images: Two of the size that it was made for.

    Returns:
        The program, and whether it takes images of any size, from half of theirs.

    Raises:
        UserError: It cannot be traced.
    """
    batch = Dim("batch", min=1)
    height, width = (Dim(name, min=-(-images.shape[axis] // _SMALLEST)) for name, axis in (("height", 2), ("width", 3)))
    why: Exception | None = None
    for sizes in ({2: height, 3: width}, {}):
        try:
            with torch.no_grad(), _plain_operators():
                program = torch.export.export(network, (images,), dynamic_shapes=({0: batch, **sizes},), strict=False)
        except Exception as error:  # of many kinds, by whatever the network does
            why = error
        else:
            return program, bool(sizes)
    reason = (str(why).strip().splitlines() or [type(why).__name__])[0]
    raise UserError(f"{type(network).__name__} cannot be traced by torch.export: {reason}") from why


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
