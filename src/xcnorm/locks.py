"""Locks between processes, which end with the process that holds them, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from filelock import FileLock, Timeout

from xcnorm.errors import UserError


@contextmanager
def locked(path: Path, busy: str | None = None) -> Iterator[None]:
    """Hold a lock for as long as the block lasts.

    Args:
        path: The lock's file, which stays behind. Its folder is made where it is missing.
        busy: What to tell the user if another process holds it; unless given, it is waited for.

    Raises:
        UserError: Another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(path, blocking=busy is None):
            yield
    except Timeout as error:
        raise UserError(busy) from error


@contextmanager
def heritable(path: Path) -> Iterator[IO[str] | None]:
    """Try to hold a lock that passes on to every process that is started with the open file (``pass_fds``).

    It ends when the block and all of these have ended.

    Args:
        path: The lock's file, which stays behind and may be written to. Its folder is made where it is missing.

    Yields:
        The file, opened for appending; None if other processes hold the lock.

    Raises:
        UserError: The system has no such locks.
    """
    try:
        import fcntl
    except ImportError as error:  # Windows
        raise UserError("a sweep needs file locks that this system lacks; run it on Linux or macOS") from error
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield handle
