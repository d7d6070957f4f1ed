"""All faults, so many times each."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch

from tests.faults import company, damage, data, disks, ends, numbers  # noqa: F401 # each registers its faults
from tests.faults.fault import FAULTS, Tally
from tests.faults.scene import PLUGIN, Scene

_PATIENCE = 5  # a fault that came too late is tried again, but not forever


def inject_all(root: Path, rounds: int, only: str, tell: Callable[[str], None], short: bool = False) -> list[Tally]:
    """Inject faults, and count what came of them.

    Args:
        root: A folder to do it in.
        rounds: How often.
        only: What must be in the name of a fault.
        tell: Is told of each fault.
        short: Whether those are left out that take long.
    """
    root.chmod(0o755)  # for a program without rights
    os.environ["XCNORM_PLUGINS"] = str(PLUGIN)
    torch.set_num_threads(1)
    scene = Scene(root)
    tallies = []
    for fault in FAULTS.values():
        if only not in fault.name or (short and fault.long):
            continue
        tally = Tally(fault)
        wanted = max(1, round(rounds * fault.share))
        for number in range(_PATIENCE * wanted):
            if tally.injected < wanted:
                tally.add(scene, root / f"{len(tallies)}-{number}", f"{fault.name} {number}")
        tallies.append(tally)
        tell(f"{fault.name}: {tally.injected - len(tally.failures)} of {tally.injected} recovered; {tally.said}")
        for failure in tally.failures:
            tell(f"  {failure}")
    return tallies
