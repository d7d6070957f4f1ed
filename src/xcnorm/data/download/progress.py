"""Progress: how far something has come, in bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from rich.progress import DownloadColumn, TransferSpeedColumn

from xcnorm.data.bars import terminal_bar

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
    with terminal_bar(DownloadColumn(), TransferSpeedColumn()) as bar:
        task = bar.add_task(description, total=None)

        def show(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total)

        yield show
