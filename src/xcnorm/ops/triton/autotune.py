"""Blocks of a matrix product: what they are, and the fastest by trial.

Beside every kernel stands a table of block sizes by shape: what measured best on an H200, in bfloat16 and in TF32.
Elsewhere, or for odd shapes, a few variations of its entry are timed with ``XCNORM_AUTOTUNE=1`` when a shape first
runs, and the fastest is remembered, for each GPU, kernel and shape, in ``autotune.json`` in the cache folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from triton.errors import TritonError

from xcnorm.files import write_text
from xcnorm.folders import cache_root
from xcnorm.ops.triton.geometry import Geometry, Problem

PROCESSORS = 132  # of an H100 or H200; others only lose a little by it
_REPEATS = 7
_HEAD_START = 2_000_000  # cycles, about a millisecond: a launch takes the host less than that
_MARGIN = 0.03  # by which the table's entry must be beaten: less may be noise, and other blocks round otherwise
_remembered: dict[Path, dict[str, Block]] = {}


class Block(NamedTuple):
    """The part of a matrix product that one program computes, and how.

    Attributes:
        rows: Of the result.
        columns: Of the result.
        depth: Of the sum, in one step.
        warps: That share the work.
        stages: Steps whose loads are under way at a time.
        position_major: Whether a block's rows are one position in many images.
        registers: That a thread may use; None leaves it to the compiler.
    """

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    position_major: bool
    registers: int | None = None

    @property
    def constants(self) -> dict[str, Any]:
        """What a kernel is compiled for."""
        return {
            "ROWS": self.rows, "COLUMNS": self.columns, "DEPTH": self.depth, "POSITION_MAJOR": self.position_major,
            "num_warps": self.warps, "num_stages": self.stages, "maxnreg": self.registers,
        }  # fmt: skip


def power_of_two(size: int, low: int, high: int) -> int:
    """The next power of two, kept between two others."""
    return max(low, min(high, triton.next_power_of_2(size)))


def scattered(g: Geometry, input: torch.dtype) -> bool:
    """Whether a patch is gathered value by value, from float32 maps of a few channels.

    The compiler would send every single value of 4 bytes through shared memory, stages ahead, in more instructions than
    the loads themselves take; shorter values it cannot send and loads as they are needed.
    """
    return input == torch.float32 and g.channels_per_group < 16


def tuned(
    kernel: str, default: Block, problem: Problem, dtypes: tuple[Any, ...], run: Callable[[Block], object]
) -> Block:
    """The block to run a kernel with.

    Args:
        kernel: Its name.
        default: What its table says.
        problem: What is correlated.
        dtypes: Of the tensors, and whatever else its speed depends on.
        run: Launches the kernel with a given block.

    Returns:
        The fastest that was ever found here; the default if that is hardly slower, tuning is off, or cannot be done
        now.
    """
    if os.environ.get("XCNORM_AUTOTUNE") != "1":
        return default
    path = cache_root() / "autotune.json"
    if path not in _remembered:
        _remembered[path] = _load(path)
    known = _remembered[path]
    name = key(kernel, default, problem, dtypes)
    choices = candidates(default)
    if known.get(name) not in choices:
        if not _can_time():
            return default
        times = {block: _milliseconds(run, block) for block in choices}
        fastest = min(times, key=lambda block: times[block])
        known[name] = fastest if times[fastest] < (1 - _MARGIN) * times[default] else default
        # Other processes may have added theirs meanwhile. Where nothing can be written, the next one tunes again.
        with contextlib.suppress(OSError):
            write_text(path, json.dumps(_load(path, warn=False) | known, indent=0))
    return known[name]


def key(kernel: str, default: Block, problem: Problem, dtypes: tuple[Any, ...]) -> str:
    """What a result holds for; the table's entry belongs to it, as that may change."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    geometry, *options = problem
    return "; ".join(map(str, (device, f"triton {triton.__version__}", kernel, *default, *dtypes, *options, *geometry)))


def candidates(default: Block) -> list[Block]:
    """The default, and what differs from it in one respect: loads under way, registers, warps, depth."""
    found = [
        default,
        *(default._replace(stages=stages) for stages in (1, 2, 3, 4)),
        *(default._replace(registers=registers) for registers in (None, 128, 168)),
        default._replace(warps=12 - default.warps),  # 4 or 8
        # No deeper step: it may no longer lie within one kernel offset.
        *([default._replace(depth=default.depth // 2)] if default.depth > 16 else []),
    ]
    return list(dict.fromkeys(found))


def _milliseconds(run: Callable[[Block], object], block: Block) -> float:
    """The time of the fastest of a few runs; infinite if the GPU has no room for such a block."""
    rounds = []
    try:
        run(block)  # compiles
        for _ in range(_REPEATS):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            # The GPU is kept waiting until all is launched: what the host needs for that is not the kernel's time.
            torch.cuda._sleep(_HEAD_START)
            begin.record()
            run(block)
            end.record()
            rounds.append((begin, end))
    except TritonError:
        return float("inf")
    torch.cuda.synchronize()
    return min(begin.elapsed_time(end) for begin, end in rounds)


def _can_time() -> bool:
    """Whether anything can be timed: not while a CUDA graph is recorded, nor without a GPU."""
    return torch.cuda.is_available() and not torch.cuda.is_current_stream_capturing()


def _load(path: Path, *, warn: bool = True) -> dict[str, Block]:
    """What a file holds; nothing if there is none, or none that can be used."""
    try:
        return {name: Block(*values) for name, values in json.loads(path.read_text(encoding="utf-8")).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        if warn:
            warnings.warn(f"{path} is not a file of tuned block sizes and is ignored: {error}", stacklevel=2)
        return {}
