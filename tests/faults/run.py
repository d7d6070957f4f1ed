"""All faults, so many times each."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from tests.faults import company, damage, data, disks, ends, numbers  # noqa: F401 # each registers its faults
from tests.faults.fault import FAULTS, Tally
from tests.faults.scene import PLUGIN, Scene

_PATIENCE = 5  # a fault that came too late is tried again, but not forever


def inject_all(root: Path, rounds: int, only: str, seconds: float, short: bool) -> Iterator[list[Tally]]:
    """Inject faults, one of each kind in a round, and count what came of them.

    Args:
        root: A folder to do it in.
        rounds: How often.
        only: What must be in the name of a fault.
        seconds: When no round is begun any more.
        short: Whether those are left out that take long.

    Yields:
        How it stands after each round.
    """
    root.chmod(0o755)  # for a program without rights
    os.environ["XCNORM_PLUGINS"] = str(PLUGIN)
    torch.set_num_threads(1)
    end, scene = time.monotonic() + seconds, Scene(root)
    tallies = [Tally(fault) for fault in FAULTS.values() if only in fault.name and not (short and fault.long)]
    for number in range(rounds):
        if time.monotonic() > end:
            return
        for place, tally in enumerate(tallies):
            for attempt in range(_PATIENCE):
                if tally.injected < max(1, int((number + 1) * tally.fault.share)):
                    tally.add(scene, root / f"{place}-{number}-{attempt}", f"{tally.fault.name} {number} {attempt}")
        yield tallies
