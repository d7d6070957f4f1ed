"""The pool of a Ray cluster: experiments side by side on its machines."""

from __future__ import annotations

import logging
import time
from typing import Any

from xcnorm.errors import UserError
from xcnorm.extras import needed
from xcnorm.sweep.process import PATIENCE, Job, Outcome, Process, stop

_PAUSE = 0.2


class RayPool:
    """Tasks on the Ray cluster that this machine belongs to; on this machine alone if it belongs to none.

    Every machine needs xcnorm, and must see the folders of runs and data under the same path.

    Args:
        device: ``"cpu"``, ``"cuda"``, or ``"auto"`` for the latter where the cluster has any.
        workers: How many jobs at a time; unless given, one for each GPU of the cluster, or one for each core.

    Raises:
        UserError: Ray is not installed, or the cluster has no such device.
    """

    def __init__(self, device: str = "auto", workers: int | None = None) -> None:
        with needed("sweeps on a cluster", "cluster"):
            import ray
        self._ray: Any = ray  # only parts of it are annotated
        self._ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        resources = self._ray.cluster_resources()
        gpus = int(resources.get("GPU", 0)) if device != "cpu" else 0
        if device == "cuda" and not gpus:
            self._ray.shutdown()
            raise UserError("this Ray cluster has no GPU; use --device cpu, or add a machine that has one")
        self._limit = workers or gpus or max(1, int(resources.get("CPU", 1)))
        self._perform = self._ray.remote(num_cpus=1, num_gpus=1 if gpus else 0, max_retries=0)(perform)
        self._tasks: dict[Any, Job] = {}

    @property
    def room(self) -> bool:
        """Whether another job may be started."""
        return len(self._tasks) < self._limit

    def start(self, job: Job) -> None:
        """Start a job, as soon as a machine has the cores and the GPU for it."""
        self._tasks[self._perform.remote(job)] = job

    def ended(self) -> list[tuple[Job, Outcome]]:
        """The jobs that ended since this was asked last."""
        if not self._tasks:
            return []
        ready, _ = self._ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=0)
        return [(self._tasks.pop(task), self._outcome(task)) for task in ready]

    def close(self) -> None:
        """Stop what still runs, in such a way that it can go on another time."""
        try:
            for task in self._tasks:
                self._ray.cancel(task)
            if self._tasks:
                self._ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=PATIENCE + 5)
        finally:
            self._ray.shutdown()

    def _outcome(self, task: Any) -> Outcome:
        try:
            outcome: Outcome = self._ray.get(task)
        except self._ray.exceptions.NodeDiedError:
            return Outcome("failed", "its machine is gone from the Ray cluster")
        except self._ray.exceptions.RayError as error:  # such as a folder that cannot be written
            return Outcome("failed", str(error).strip().splitlines()[-1])
        return outcome


def perform(job: Job) -> Outcome:
    """Do a job, on whichever machine this is called."""
    process = Process.start(job, {})  # Ray has set the visible GPU and the number of threads
    if process is None:
        return Outcome("elsewhere")
    try:
        while (outcome := process.poll()) is None:
            time.sleep(_PAUSE)
    except BaseException:  # cancelled: Ray interrupts the task
        stop([process])
        raise
    return outcome
