"""The display of a sweep: a table that is kept up to date on a terminal, a line for every event elsewhere."""

from __future__ import annotations

import time
from datetime import timedelta
from types import TracebackType
from typing import Self

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from xcnorm.errors import printable
from xcnorm.sweep.board import Board, Entry

_EVERY = 1.0  # seconds between two looks at the logs


class Display:
    """Shows a sweep while it runs.

    Args:
        board: The sweep.
        console: Where to.
    """

    def __init__(self, board: Board, console: Console) -> None:
        self._board, self._console = board, console
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        self._drawn = -_EVERY

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        done, total = len(self._board.among("finished")), len(self._board.entries)
        self.say(f"{total} experiments, {done} of them finished already")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """Say something, above the table where there is one."""
        self._console.print(Text(printable(text)), soft_wrap=True)

    def changed(self, entry: Entry) -> None:
        """Tell of a job whose state has changed. A table shows most changes; failures are told in any case."""
        if self._live is not None and entry.state != "failed":
            return
        score = "" if entry.score is None else f", {100 * entry.score:.2f} % on the targets"
        event = {
            "running": f"started in {entry.job.folder.path}",
            "elsewhere": "another process is at it",
            "failed": f"failed: {entry.reason}",
            "finished": f"finished{score}",
        }[entry.state]
        done = len(self._board.among("finished", "failed"))
        self.say(f"{done}/{len(self._board.entries)} {entry.label}, seed {entry.seed}: {event}")

    def refresh(self) -> None:
        """Bring the table up to date, if it is time to."""
        if self._live is not None and time.monotonic() - self._drawn > _EVERY:
            self._drawn = time.monotonic()
            self._live.update(Group(arms_table(self._board), _overall(self._board)), refresh=True)


def arms_table(board: Board) -> Table:
    """How far every arm is, and how good."""
    table = Table(box=SIMPLE_HEAD)
    table.add_column("arm")
    for name in ("seeds", "finished", "running", "failed", "step", "loss", "targets %"):
        table.add_column(name, justify="right")
    for arm in board.arms():
        table.add_row(
            Text(printable(arm.label)),
            str(arm.seeds),
            str(arm.finished),
            str(arm.running or "-"),
            Text(str(arm.failed), style="red") if arm.failed else "-",
            "-" if arm.step is None else str(arm.step),
            "-" if arm.loss is None else f"{arm.loss:.4f}",
            "-" if arm.score is None else f"{100 * arm.score:.2f}",
        )
    return table


def _overall(board: Board) -> Table:
    total, remaining = len(board.entries), board.remaining()
    line = Table.grid(padding=(0, 1))
    done = len(board.among("finished", "failed"))
    left = "" if remaining is None else f", about {_clock(remaining)} to go"
    line.add_row(f" {done}/{total}", ProgressBar(total, done, width=40), f"{_clock(board.elapsed())}{left}")
    return line


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
