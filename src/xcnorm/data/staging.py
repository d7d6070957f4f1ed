"""Filling a folder out of sight, so that what it is for appears complete or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from glob import escape
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def staging(parent: Path, name: str) -> Iterator[Path]:
    """Make a hidden folder that lasts as long as the block, and remove those of its kind that killed processes left.

    Two processes that make the same thing do not meet: each has a folder of its own, and a lock on it, which the
    operating system opens however the process ends. Where folders cannot be locked, nobody else's is removed.

    Args:
        parent: The folder to make it in, which must be there.
        name: What it is for.
    """
    prefix = f".xcnorm-{name}-"
    with ExitStack() as stack:
        # One at a time, or a folder that another process has made and not yet locked would be taken for abandoned.
        with _lock(parent, wait=True):
            for left in parent.glob(f"{escape(prefix)}????????"):
                with _lock(left) as abandoned:
                    if abandoned:
                        shutil.rmtree(left, ignore_errors=True)
            made = TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True)
            folder = Path(stack.enter_context(made))
            stack.enter_context(_lock(folder))
        yield folder


@contextmanager
def _lock(folder: Path, wait: bool = False) -> Iterator[bool]:
    """Lock a folder, and say whether that could be done."""
    with ExitStack() as stack:
        try:
            import fcntl

            handle = os.open(folder, os.O_DIRECTORY)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (ImportError, OSError):  # Windows; or no folder of ours, locked already, or on a disk without locks
            locked = False
        else:
            locked = True
        yield locked
