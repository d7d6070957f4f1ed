"""Locks between processes, which end with the process that holds them, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
