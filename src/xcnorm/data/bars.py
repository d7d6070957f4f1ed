"""Progress bars for what takes a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def counting_bar(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on the terminal while something is counted; the function given is told of every newly done lot.

    Args:
        description: What is being done.
        total: How many there are.
    """
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(description, total=total)

        def advance(count: int) -> None:
            progress.advance(task, count)

        yield advance
