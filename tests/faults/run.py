"""All faults, so many times each."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from tests.faults import company, damage, data, disks, ends, numbers  # noqa: F401 # each registers its faults
from tests.faults.fault import Tally
from tests.faults.scene import PLUGIN, Scene

_PATIENCE = 5  # a fault that came too late is tried again, but not forever


def inject_all(root: Path, tallies: Sequence[Tally], rounds: range, seconds: float) -> Iterator[int]:
    """Inject faults, one of each kind in a round, and count what comes of them.

    Args:
        root: A folder to do it in.
        tallies: Of the faults.
        rounds: The numbers of the rounds, from which everything random follows.
        seconds: When no round is begun any more.

    Yields:
        The number of rounds done.
    """
    root.chmod(0o755)  # for a program without rights
    os.environ["XCNORM_PLUGINS"] = str(PLUGIN)
    torch.set_num_threads(1)
    end, scene = time.monotonic() + seconds, Scene(root)
    for number in rounds:
        if time.monotonic() > end:
            return
        for place, tally in enumerate(tallies):
            for attempt in range(_PATIENCE):
                if tally.injected < max(1, int((number + 1) * tally.fault.share)):
                    tally.add(scene, root / f"{place}-{number}-{attempt}", f"{tally.fault.name} {number} {attempt}")
        yield number + 1
