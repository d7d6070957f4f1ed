"""The board: where a sweep stands."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from xcnorm.engine import RunFolder
from xcnorm.engine.runs import mean_over_targets
from xcnorm.errors import UserError
from xcnorm.metrics import average
from xcnorm.sweep.process import Job

State = Literal["waiting", "running", "elsewhere", "finished", "failed"]

_TAIL = 4096  # bytes of a log that surely hold its last line


@dataclass
class Entry:
    """A job of a sweep.

    Attributes:
        job: What is to be done.
        state: How far it is; ``"elsewhere"`` while another process is at it.
        reason: Why it failed.
        score: The mean of the benchmark's metric over the targets, once it is finished.
    """

    job: Job
    state: State = "waiting"
    reason: str = ""
    score: float | None = None

    @property
    def label(self) -> str:
        """The arm it belongs to."""
        return self.job.experiment.label

    @property
    def seed(self) -> int:
        """Its seed."""
        return self.job.experiment.seed

    def settle(self, state: State, reason: str = "") -> None:
        """Note what became of it.

        A finished job whose result cannot be read has failed.
        """
        self.state, self.reason = state, reason
        if state == "finished":
            try:
                self.score = _score(self.job.folder)
            except UserError as error:
                self.state, self.reason = "failed", str(error)

    def latest(self) -> dict[str, Any]:
        """The last line with a loss that it has logged."""
        return _last_loss(self.job.folder.path / "log.jsonl") if self.state in ("running", "elsewhere") else {}

    def fraction(self) -> float:
        """Which share of it is done."""
        if self.state in ("finished", "failed"):
            return 1.0
        schedule, line = self.job.experiment.schedule, self.latest()
        return (
            line.get("step", 0) / schedule.iterations if schedule.iterations else line.get("epoch", 0) / schedule.epochs
        )


@dataclass(frozen=True)
class ArmProgress:
    """An arm of a sweep.

    Attributes:
        label: Its name.
        seeds: How many seeds it has.
        finished: How many are finished.
        running: How many are being trained, here or elsewhere.
        failed: How many have failed.
        step: The step of the run that is furthest of those being trained.
        loss: Its loss.
        score: The mean of the scores of finished seeds.
    """

    label: str
    seeds: int
    finished: int
    running: int
    failed: int
    step: int | None
    loss: float | None
    score: float | None


class Board:
    """Every job of a sweep, and how far it is.

    Args:
        jobs: What is to be done. Jobs done in an earlier sweep are noted as finished; what is asked twice is done once.

    Attributes:
        entries: The jobs, in the order in which they are done.
    """

    def __init__(self, jobs: Iterable[Job]) -> None:
        distinct: dict[Path, Job] = {}
        for job in jobs:
            distinct.setdefault(job.folder.path, job)
        self.entries = [Entry(job) for job in distinct.values()]
        for entry in self.entries:
            if entry.job.folder.finished:
                entry.settle("finished")
        self._todo = self.among("waiting")
        self._started = time.monotonic()

    def among(self, *states: State) -> list[Entry]:
        """The jobs in these states."""
        return [entry for entry in self.entries if entry.state in states]

    def elapsed(self) -> float:
        """Seconds since the sweep began."""
        return time.monotonic() - self._started

    def remaining(self) -> float | None:
        """Seconds that it may still take, at the pace so far; None as long as nobody can tell."""
        done = sum(entry.fraction() for entry in self._todo)
        return self.elapsed() * (len(self._todo) - done) / done if done else None

    def arms(self) -> list[ArmProgress]:
        """Every arm, in order."""
        labels = dict.fromkeys(entry.label for entry in self.entries)
        return [_progress(label, [entry for entry in self.entries if entry.label == label]) for label in labels]


def _progress(label: str, entries: list[Entry]) -> ArmProgress:
    states = [entry.state for entry in entries]
    furthest = max((entry.latest() for entry in entries), key=lambda line: line.get("step", 0))
    scores = {str(entry.job.folder.path): entry.score for entry in entries if entry.score is not None}
    return ArmProgress(
        label=label,
        seeds=len(entries),
        finished=states.count("finished"),
        running=states.count("running") + states.count("elsewhere"),
        failed=states.count("failed"),
        step=furthest.get("step"),
        loss=furthest.get("loss"),
        score=average(scores) if scores else None,
    )


def _score(folder: RunFolder) -> float | None:
    """The mean over targets, with the first of the weights that the experiment asks for."""
    with folder.metrics() as metrics:
        first, *_ = metrics["selection"]
        return mean_over_targets(metrics, first)


def _last_loss(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - _TAIL))
            lines = log.read().splitlines()
    except FileNotFoundError:
        return {}
    for line in reversed(lines):
        try:
            values: dict[str, Any] = json.loads(line)
        except ValueError:  # being written, or the first of the tail
            continue
        if "loss" in values:
            return values
    return {}
