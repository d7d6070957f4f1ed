"""Progress bars for what takes a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn


def terminal_bar(*columns: ProgressColumn) -> Progress:
    """A bar that is gone at the end and only shown on a terminal; the columns stand between it and the time left."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *columns,
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


@contextmanager
def counting_bar(description: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar on the terminal while something is counted; the function given is told of every newly done lot.

    Without a total, the bar only counts.

    Args:
        description: What is being done.
        total: How many there are.
    """
    with terminal_bar(MofNCompleteColumn()) as progress:
        task = progress.add_task(description, total=total)

        def advance(count: int) -> None:
            progress.advance(task, count)

        yield advance
