"""Failures of the machine, told in one line: memory that ran out, and a process that died beside this one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed

from xcnorm.engine.distributed import World
from xcnorm.engine.experiment import Experiment
from xcnorm.errors import UserError

# How torch says so where it has no class of its own for it.
_NO_MEMORY = ("can't allocate memory", "out of memory")
_GONE = ("gloo", "connection closed by peer", "connection reset by peer", "broken pipe")


@contextmanager
def machine_failures(experiment: Experiment, world: World) -> Iterator[None]:
    """Say in one line what the machine did, and what helps.

    The micro-batch is not made smaller by itself: statistics of batches would be others, and so would the result.

    Args:
        experiment: What is done in the block.
        world: The processes that do it.

    Raises:
        UserError: Memory ran out, or another process of this training died.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        said = str(error).lower()
        if isinstance(error, MemoryError | torch.OutOfMemoryError) or any(words in said for words in _NO_MEMORY):
            raise UserError(
                f"out of memory on {world.device}; free some, or use a larger one, and run the same command again; a "
                f"smaller schedule.batch (it is {experiment.schedule.batch}), a smaller model.name or "
                "run.precision='bf16' need less, as another experiment"
            ) from error
        if world.size > 1 and (isinstance(error, torch.distributed.DistError) or any(words in said for words in _GONE)):
            raise UserError(
                "another process of this training is gone; the same command goes on from the last checkpoint"
            ) from error
        raise
