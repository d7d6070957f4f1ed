"""The process of a job: one experiment of a sweep by itself, so that what happens to it happens to nobody else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from xcnorm.engine import Experiment, RunFolder
from xcnorm.errors import UserError
from xcnorm.locks import heritable

PATIENCE = 30.0  # seconds for a last step and a checkpoint, before a process that was asked to stop is killed


@dataclass(frozen=True)
class Job:
    """An experiment, and where it is done.

    Attributes:
        experiment: What to train and test.
        runs: The folder of runs.
        data: The folder that holds the data; the usual one unless given.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
    """

    experiment: Experiment
    runs: Path
    data: Path | None = None
    device: str = "auto"

    @property
    def folder(self) -> RunFolder:
        """The folder of its run."""
        return RunFolder.of(self.experiment, self.runs)

    def command(self, config: Path) -> list[str]:
        """The command that does it, once the experiment is written into this file."""
        command = [sys.executable, "-m", "xcnorm", "train", "--config", str(config), "--out", str(self.runs)]
        command += ["--device", self.device]
        return command if self.data is None else [*command, "--data", str(self.data)]


@dataclass(frozen=True)
class Outcome:
    """What came of a job.

    Attributes:
        state: ``"elsewhere"`` when another process is at it.
        reason: Why it failed, in one line.
    """

    state: Literal["finished", "failed", "elsewhere"]
    reason: str = ""


class Process:
    """A job that is being done.

    The experiment stands in ``sweep.toml`` in the run's folder, and that file is locked for as long as the process
    lives, whatever becomes of the sweep that started it. So other sweeps neither start the run a second time nor wait
    for one that has died. All that the process says goes to ``train.log``.
    """

    def __init__(self, job: Job, claim: IO[str], environment: Mapping[str, str]) -> None:
        self._folder = job.folder.path
        (self._folder / "failed.txt").unlink(missing_ok=True)  # a process that is killed would leave an older reason
        with (self._folder / "train.log").open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                job.command(Path(claim.name)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | environment,
                pass_fds=(claim.fileno(),),
                process_group=0,  # or Ctrl-C would reach it twice, and the second time ends it without a checkpoint
            )

    @classmethod
    def start(cls, job: Job, environment: Mapping[str, str]) -> Process | None:
        """Start a job, unless it is finished or another process is at it.

        Args:
            job: What to do.
            environment: Variables on top of those of this process.
        """
        with _claim(job.folder) as claim:
            if claim is None or job.folder.finished:
                return None
            claim.truncate(0)
            claim.write(job.experiment.to_toml())
            claim.flush()
            return cls(job, claim, environment)

    def poll(self) -> Outcome | None:
        """What came of it; None while it is being done."""
        code = self._process.poll()
        if code is None:
            return None
        return Outcome("finished") if RunFolder(self._folder).finished else Outcome("failed", self._reason(code))

    def interrupt(self) -> None:
        """Ask it to stop at a point from which it can go on.

        Not by SIGINT, although that means the same to it: Ray blocks that signal in all that it starts, and a shell
        does so in what it runs in the background.
        """
        self._process.terminate()

    def wait(self, seconds: float) -> None:
        """Wait for its end, but not for longer than that."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return

    def kill(self) -> None:
        """End it now, if it has not ended."""
        self._process.kill()
        self._process.wait()

    def _reason(self, code: int) -> str:
        if code < 0:
            memory = ", perhaps for want of memory" if -code == signal.SIGKILL else ""
            return f"killed by {signal.Signals(-code).name}{memory}"
        written = self._folder / "failed.txt"
        if written.exists():
            return written.read_text(encoding="utf-8").strip()
        with (self._folder / "train.log").open("rb") as log:
            log.seek(self._log_start)
            lines = log.read().decode(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return said[-1].removeprefix("xcnorm: ") if said else f"ended with exit code {code} and no word"


def stop(processes: Iterable[Process]) -> None:
    """Stop processes: politely, all at once, and for good after `PATIENCE` seconds or a second Ctrl-C."""
    processes = list(processes)
    for process in processes:
        process.interrupt()
    deadline = time.monotonic() + PATIENCE
    try:
        for process in processes:
            process.wait(max(0.0, deadline - time.monotonic()))
    finally:
        for process in processes:
            process.kill()


def is_claimed(folder: RunFolder) -> bool:
    """Whether a process is at a run, in this sweep, in another, or without one."""
    with _claim(folder) as claim:
        return claim is None


@contextmanager
def _claim(folder: RunFolder) -> Iterator[IO[str] | None]:
    """The run's ``sweep.toml``, locked for this process and those that inherit it; None if others are at the run."""
    with heritable(folder.path / "sweep.toml") as claim:
        yield None if claim is None or _is_being_trained(folder) else claim


def _is_being_trained(folder: RunFolder) -> bool:
    """Whether somebody is at it without a sweep. This cannot get into a sweep's way: the caller holds its lock."""
    try:
        with folder.claimed():
            return False
    except UserError:
        return True
