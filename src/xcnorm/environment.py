"""The environment of a measurement: machine, versions and commit."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from xcnorm._version import __version__


def cores() -> int:
    """The CPU's cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def environment(device: str) -> dict[str, Any]:
    """Machine, versions and commit, to stand beside every result.

    Args:
        device: What was measured: ``"cpu"`` or ``"cuda"``.
    """
    import torch  # not for those who only count cores

    return {
        "xcnorm": __version__,
        "commit": _commit() or "unknown",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": torch.cuda.get_device_name() if device == "cuda" else _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


def _processor() -> str:
    """The name of the CPU where Linux tells it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _commit() -> str:
    """Of the source tree that this file lies in, if it is one."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:  # no git here
        return ""
