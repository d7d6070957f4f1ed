"""Block sizes by trial: off unless ``XCNORM_AUTOTUNE=1``, once for each GPU, kernel and shape, kept in a file.

The table of `xcnorm.ops.triton.configurations` was measured on an H200. Elsewhere, or for odd shapes, a few variations
of its entry are timed when a shape first runs, and the fastest is remembered in ``autotune.json`` in the cache folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import triton
from triton.errors import TritonError

from xcnorm.folders import cache_root
from xcnorm.ops.triton.configurations import Block
from xcnorm.ops.triton.geometry import Geometry

_REPEATS = 7
_HEAD_START = 2_000_000  # cycles, about a millisecond: a launch takes the host less than that
_MARGIN = 0.03  # by which the table's entry must be beaten: less may be noise, and other blocks round otherwise
_remembered: dict[Path, dict[str, Block]] = {}


def tuned(kernel: str, default: Block, g: Geometry, options: tuple[Any, ...], run: Callable[[Block], object]) -> Block:
    """The block sizes to run a kernel with.

    Args:
        kernel: Its name.
        default: What the table says.
        g: The geometry.
        options: Whatever else its speed depends on: dtype, precision, robust function and the like.
        run: Launches the kernel with given block sizes.

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
    name = key(kernel, default, g, options)
    choices = candidates(default)
    if known.get(name) not in choices:
        if not _can_time():
            return default
        times = {block: _milliseconds(run, block) for block in choices}
        fastest = min(times, key=lambda block: times[block])
        known[name] = fastest if times[fastest] < (1 - _MARGIN) * times[default] else default
        # Other processes may have added theirs meanwhile.
        _save(path, _load(path, warn=False) | known)
    return known[name]


def key(kernel: str, default: Block, g: Geometry, options: tuple[Any, ...]) -> str:
    """What a result holds for; the table's entry belongs to it, as that may change."""
    return "; ".join(map(str, (_device(), f"triton {triton.__version__}", kernel, *default, *options, *g)))


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
    """Of the fastest of a few runs; infinite if the GPU has no room for such a block."""
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
    """Not while a CUDA graph is recorded, nor without a GPU."""
    return torch.cuda.is_available() and not torch.cuda.is_current_stream_capturing()


def _device() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"


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


def _save(path: Path, blocks: dict[str, Block]) -> None:
    """Whole or not at all; where nothing can be written, the next process tunes again."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(blocks, indent=0), encoding="utf-8")
        part.replace(path)
