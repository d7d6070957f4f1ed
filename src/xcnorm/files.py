"""Atomic writes: a file or folder that has its final name is complete, whenever the process is killed."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from xcnorm.errors import UserError

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Write a file, or a folder of files, under a name of its own; it takes the target's place if the block ends well.

    Whatever the target was is left alone until then, and what was written is removed if the block fails. Two processes
    may write the same target at a time: the last one to end wins.

    Args:
        target: The final name. Its folder is made where it is missing.

    Yields:
        The name to write under, beside the target. Nothing has it yet.

    Raises:
        OSError: The disk is full or cannot be written; `disk_errors` tells it in one line.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        yield part
        for path in (*part.iterdir(), part) if part.is_dir() else (part,):
            flush(path)
        if part.is_dir():
            shutil.rmtree(target, ignore_errors=True)
        part.replace(target)
        flush(target.parent)
    finally:  # nothing is left of it unless something failed
        shutil.rmtree(part, ignore_errors=True) if part.is_dir() else part.unlink(missing_ok=True)


def write_text(target: Path, text: str) -> None:
    """Write a text file whole or not at all.

    Raises:
        OSError: As `replacing`.
    """
    with replacing(target) as part:
        part.write_text(text, encoding="utf-8")


def flush(path: Path) -> None:
    """Force a file, or the entries of a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def disk_errors(target: Path | str, remedy: str) -> Iterator[None]:
    """Turn what the operating system has against writing into one line for the user.

    Args:
        target: What is being written, for the message: its path, with words before it if need be.
        remedy: What to do about it, beside making room.

    Raises:
        UserError: An `OSError` came up.
    """
    try:
        yield
    except OSError as error:
        first = "free some space, or " if error.errno in _NO_ROOM else ""
        raise UserError(f"cannot write {target}: {error.strerror or error}; {first}{remedy}") from error
