"""Telling how far something has come, in bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import rich.progress
from rich.console import Console

Progress: TypeAlias = Callable[[int, int | None], None]
"""Is told again and again how many bytes are done, and of how many (None where nobody knows)."""


def silent(done: int, total: int | None) -> None:
    """Tell nobody."""


@contextmanager
def bytes_bar(description: str) -> Iterator[Progress]:
    """Show a bar on the terminal while bytes come in.

    Args:
        description: What is being done.
    """
    columns = (
        rich.progress.TextColumn("{task.description}", markup=False),
        rich.progress.BarColumn(),
        rich.progress.DownloadColumn(),
        rich.progress.TransferSpeedColumn(),
        rich.progress.TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with rich.progress.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task(description, total=None)

        def show(done: int, total: int | None) -> None:
            bars.update(task, completed=done, total=total)

        yield show
