"""The loop of a sweep."""

from __future__ import annotations

import time

from xcnorm.engine.signals import stop_requests
from xcnorm.sweep.board import Board, Entry
from xcnorm.sweep.display import Display
from xcnorm.sweep.pool import Pool
from xcnorm.sweep.process import is_claimed

_PAUSE = 0.2
_LOOK_AGAIN = 3.0  # seconds between two looks at runs that other processes are at


def conduct(board: Board, pool: Pool, display: Display) -> None:
    """Do every job of a board that is not finished.

    A job that fails does not stop the others. One that another process is at is looked at again until that process has
    finished it, or has given up and left it to this sweep.

    Args:
        board: The jobs; it is kept up to date.
        pool: What does them.
        display: Is told what happens.

    Raises:
        KeyboardInterrupt: The sweep was asked to stop. Jobs may still run until the pool is closed.
    """
    entries = {entry.job.folder.path: entry for entry in board.entries}
    looked = time.monotonic()
    with stop_requests() as stopped:
        while board.among("waiting", "running", "elsewhere"):
            if stopped():
                display.say(f"stopping {len(board.among('running'))} runs; the same command goes on from here")
                raise KeyboardInterrupt
            for job, outcome in pool.ended():
                entry = entries[job.folder.path]
                entry.settle(outcome.state, outcome.reason)
                display.changed(entry)
            ready = board.among("waiting") if pool.room else []
            if time.monotonic() - looked > _LOOK_AGAIN:
                looked = time.monotonic()
                ready += board.among("elsewhere")
            for entry in ready:
                before = entry.state
                _begin(entry, pool)
                if entry.state != before:
                    display.changed(entry)
            display.refresh()
            time.sleep(_PAUSE)


def _begin(entry: Entry, pool: Pool) -> None:
    """Start a job, unless it is finished or claimed by now, or there is no room."""
    folder = entry.job.folder
    try:
        if folder.finished:
            entry.settle("finished")
        elif not pool.room:
            return
        elif is_claimed(folder):
            entry.settle("elsewhere")
        else:
            pool.start(entry.job)
            entry.settle("running")
    except OSError as error:  # its folder cannot be written; others may
        entry.settle("failed", f"{error.strerror}: {error.filename or folder.path}")
