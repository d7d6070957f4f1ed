"""Putting files in place whole or not at all, and saying in one line why it cannot be done."""

from __future__ import annotations

import errno
import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from xcnorm.errors import UserError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def arriving(target: Path, size: int | None) -> Iterator[io.BufferedRandom]:
    """Write a file under another name (``.part`` at the end), and give it its own when the block ends well.

    If the block fails, what was written stays in the ``.part`` and is found there at the end of the handle next time;
    an empty one is deleted. Whatever has the final name is left alone until then.

    Args:
        target: The final name.
        size: How long the file will be in bytes, if that is known.

    Yields:
        The ``.part``, open for appending and for reading.

    Raises:
        UserError: There is no room, the folder cannot be written, or another process is at it.
    """
    part = target.with_name(target.name + ".part")
    with disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with part.open("a+b") as handle:
            _claim(handle, target)
            try:
                _check_room(target, (size or 0) - handle.tell())
                yield handle
                handle.flush()
                os.fsync(handle.fileno())
            except BaseException:
                with suppress(OSError):  # where an open file cannot be deleted, an empty one may stay
                    if not part.stat().st_size:
                        part.unlink()
                raise
        part.replace(target)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn what the operating system has against reading or writing into one line for the user.

    Args:
        path: What is being written, for the message.

    Raises:
        UserError: An `OSError` came up.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            remedy = "free some space, or keep the data in another folder"
        else:
            remedy = "let it be written, or keep the data in another folder"
        raise UserError(f"cannot write {error.filename or path}: {error.strerror}; {remedy}") from error


def _check_room(target: Path, needed: int) -> None:
    free = shutil.disk_usage(target.parent).free
    if needed > free:
        raise UserError(
            f"no room for {target}: it needs {needed:,} bytes more and {free:,} are free; "
            "free some space, or keep the data in another folder"
        )


def _claim(handle: io.BufferedRandom, target: Path) -> None:
    """Two processes that append to one file would spoil it for both."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise UserError(f"{target} is being written by another process; wait until that has finished") from error
    except OSError:  # a file system without locks
        return
