"""Random numbers of a run: one seed, and a stream of its own for every purpose."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def derive(seed: int, purpose: str) -> int:
    """A seed for one purpose, so that a new purpose does not shift the numbers of the others."""
    return int.from_bytes(hashlib.sha256(f"{purpose}\0{seed}".encode()).digest()[:4], "little")


def stream(seed: int, purpose: str) -> torch.Generator:
    """A generator on the CPU for one purpose."""
    return torch.Generator().manual_seed(derive(seed, purpose))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch's own generator with a seed, for code that draws first weights; afterwards it is as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def seed_globals(seed: int) -> None:
    """Seed the generators that code without one of its own draws from, such as torch's dropout."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def global_state() -> dict[str, Any]:
    """The state of those generators."""
    kind, keys, *numbers = np.random.get_state(legacy=True)
    return {
        "python": random.getstate(),
        "numpy": [kind, torch.from_numpy(np.asarray(keys).astype(np.int64)), *numbers],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def set_global_state(state: dict[str, Any]) -> None:
    """Put those generators into a state."""
    random.setstate(state["python"])
    kind, keys, *numbers = state["numpy"]
    np.random.set_state((kind, keys.cpu().numpy().astype(np.uint32), *numbers))
    torch.set_rng_state(state["torch"].cpu())
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all([one.cpu() for one in state["cuda"]])
