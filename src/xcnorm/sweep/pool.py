"""The pool of this machine: experiments side by side."""

from __future__ import annotations

import os
from typing import Protocol

import torch

from xcnorm.engine import world
from xcnorm.environment import cores
from xcnorm.sweep.process import Job, Outcome, Process, stop


class Pool(Protocol):
    """Something that does several jobs at a time."""

    @property
    def room(self) -> bool:
        """Whether another job may be started."""

    def start(self, job: Job) -> None:
        """Start a job."""

    def ended(self) -> list[tuple[Job, Outcome]]:
        """The jobs that ended since this was asked last."""

    def close(self) -> None:
        """Stop what still runs, in such a way that it can go on another time."""


class LocalPool:
    """A few processes on this machine, each with a device of its own as long as there are enough.

    Args:
        device: ``"cpu"``, ``"cuda"``, or ``"auto"`` for the latter where there is one.
        workers: How many jobs at a time; unless given, one for each GPU, or one on the CPU.

    Raises:
        UserError: The device is unknown or not there.
    """

    def __init__(self, device: str = "auto", workers: int | None = None) -> None:
        with world(device) as here:
            gpus = _gpus() if here.device.type == "cuda" else []
        count = workers or max(1, len(gpus))
        self._slots = [_environment(index, count, gpus) for index in range(count)]
        self._running: list[tuple[Job, Process, dict[str, str]]] = []
        self._declined: list[Job] = []

    @property
    def room(self) -> bool:
        """Whether another job may be started."""
        return bool(self._slots)

    def start(self, job: Job) -> None:
        """Start a job."""
        process = Process.start(job, self._slots[0])
        if process is None:
            self._declined.append(job)
        else:
            self._running.append((job, process, self._slots.pop(0)))

    def ended(self) -> list[tuple[Job, Outcome]]:
        """The jobs that ended since this was asked last."""
        ended = [(job, Outcome("elsewhere")) for job in self._declined]
        self._declined = []
        for entry in list(self._running):
            job, process, slot = entry
            outcome = process.poll()
            if outcome is not None:
                self._running.remove(entry)
                self._slots.append(slot)
                ended.append((job, outcome))
        return ended

    def close(self) -> None:
        """Stop what still runs, in such a way that it can go on another time."""
        stop(process for _, process, _ in self._running)
        self._running = []


def _gpus() -> list[str]:
    """The names by which a process can be shown one GPU and no other."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",") if visible else [str(index) for index in range(torch.cuda.device_count())]


def _environment(index: int, count: int, gpus: list[str]) -> dict[str, str]:
    """For the process in one slot: its GPU, and its share of the cores unless the user has set the threads."""
    environment = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(max(1, cores() // count)))}
    return environment | ({"CUDA_VISIBLE_DEVICES": gpus[index % len(gpus)]} if gpus else {})
