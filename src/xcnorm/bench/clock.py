"""What a clock says of work that a device may still be at when the call returns."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


def seconds_taken(work: Callable[[], object], device: torch.device | str) -> float:
    """How long some work takes, from when the device is idle until it is idle again.

    Args:
        work: What to time.
        device: Where it is done.
    """
    _synchronise(device)
    start = time.perf_counter()
    work()
    _synchronise(device)
    return time.perf_counter() - start


def _synchronise(device: torch.device | str) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
