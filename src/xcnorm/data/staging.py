"""Staging: a hidden folder beside a target, which one process at a time fills before anything of the target appears."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from xcnorm.locks import locked


@contextmanager
def staging(target: Path, busy: str | None = None) -> Iterator[Path]:
    """Make the folder, without what a killed process left in it, for as long as the block lasts.

    Args:
        target: What it is for. The folder lies beside it, so that what is in it can be moved there in one step.
        busy: What to tell the user if another process is at it; unless given, that is waited for.

    Raises:
        UserError: Another process is at it.
    """
    folder, lock = (target.with_name(f".{target.name}.{kind}") for kind in ("part", "lock"))
    with locked(lock, busy):
        try:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            lock.unlink(missing_ok=True)
