"""Arriving files: written in pieces, over several attempts if need be."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from xcnorm.errors import UserError
from xcnorm.files import disk_errors
from xcnorm.locks import locked

REMEDY = "keep the data in another folder"


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
    part, lock = target.with_name(f"{target.name}.part"), target.with_name(f".{target.name}.lock")
    busy = f"{target} is being written by another process; wait until that has finished"
    with disk_errors(target, REMEDY), locked(lock, busy):
        try:
            with part.open("a+b") as handle:
                _check_room(target, (size or 0) - handle.tell())
                yield handle
                handle.flush()
                os.fsync(handle.fileno())
            part.replace(target)
        finally:
            with suppress(OSError):
                if not part.stat().st_size:
                    part.unlink()
            lock.unlink(missing_ok=True)


def _check_room(target: Path, needed: int) -> None:
    free = shutil.disk_usage(target.parent).free
    if needed > free:
        raise UserError(
            f"no room for {target}: it needs {needed:,} bytes more and {free:,} are free; free some space, or {REMEDY}"
        )
