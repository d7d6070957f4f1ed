"""What a number was measured on."""

from __future__ import annotations

import os
import platform
import subprocess
from typing import Any

import torch

import xcnorm


def environment(device: str) -> dict[str, Any]:
    """Machine, versions and commit, to stand beside every result."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return {
        "xcnorm": xcnorm.__version__,
        "commit": commit or "unknown",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }
