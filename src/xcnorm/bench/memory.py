"""Peak memory of a step."""

from __future__ import annotations

import itertools
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor


def peak_memory(step: Callable[[Tensor], object], input: Tensor) -> int:
    """Most bytes held at once during a step in eager mode, its input included, beyond what was there before."""
    step(input)  # what libraries set up at first use stays
    if not input.is_cuda:
        return _counted(step, input) + input.nbytes
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step(input)
    return torch.cuda.max_memory_allocated() - before + input.nbytes


def _counted(step: Callable[[Tensor], object], input: Tensor) -> int:
    """Peak of the CPU's allocations, from torch's record of each."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else the recorder announces itself on stderr each time
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as recorded:
        step(input)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        recorded.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    allocations = sorted((e for e in events if e.get("name") == "[memory]"), key=lambda event: event["ts"])
    return max(itertools.accumulate(event["args"]["Bytes"] for event in allocations))
