"""The world: the processes that train one network, started by torchrun; or just one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed

from xcnorm.errors import UserError


@dataclass(frozen=True)
class World:
    """The processes that train one network together.

    Attributes:
        rank: The number of this one.
        size: How many there are.
        device: Where this one computes.
    """

    rank: int
    size: int
    device: torch.device

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes files and talks to the user."""
        return self.rank == 0

    def agree(self, wish: bool) -> bool:
        """Whether any process wishes so; all must ask."""
        if self.size == 1:
            return wish
        wishes = torch.tensor(float(wish), device=self.device)
        torch.distributed.all_reduce(wishes)
        return bool(wishes > 0)

    def gather(self, value: Any) -> list[Any]:
        """What every process has, in order; all must ask."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(values, value)
        return values

    def wait(self) -> None:
        """Until all processes are here."""
        if self.size > 1:
            torch.distributed.barrier()


@contextmanager
def world(device: str = "auto") -> Iterator[World]:
    """The world this process is in: that of torchrun, if it was started by it, else one of its own.

    Args:
        device: ``"cpu"``, ``"cuda"``, or ``"auto"`` for the latter where there is one.

    Raises:
        UserError: The device is unknown or not there.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise UserError(f"device must be auto, cpu or cuda, not {device!r}")
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("there is no CUDA device here; xcnorm doctor says why")
    cuda = device != "cpu" and torch.cuda.is_available()
    size, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    if size == 1:
        yield World(0, 1, torch.device("cuda" if cuda else "cpu"))
        return
    here = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(here)
    # The others wait while the first tests on all targets, which may take longer than torch thinks anything should.
    torch.distributed.init_process_group("nccl" if cuda else "gloo", timeout=timedelta(days=1))
    try:
        yield World(rank, size, here)
    finally:
        torch.distributed.destroy_process_group()
