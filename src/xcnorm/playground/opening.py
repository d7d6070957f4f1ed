"""Opening a playground: runs and other models become onlookers, and their benchmark gives samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from xcnorm.auditing import open_model
from xcnorm.auditing.normalising import choose
from xcnorm.auditing.subject import Normalisation, Subject, tell_apart
from xcnorm.data import Benchmark, load
from xcnorm.engine import Experiment, RunFolder
from xcnorm.errors import UserError, printable
from xcnorm.playground.answering import Playground
from xcnorm.playground.onlookers import Onlooker
from xcnorm.playground.samples import labelled, strips
from xcnorm.report import find_runs

DEMO = "xcnorm-demo"
_FIRST = ("conv", "xcnorm", "r_xcnorm")
_MOST = 8  # networks: each takes its time with every move of a slider


def open_playground(models: Sequence[str | Path] = (), data: Path | str | None = None) -> Playground:
    """Open networks to play with, on the CPU.

    Args:
        models: Runs, folders of runs, or whatever else `xcnorm.auditing.open_model` opens; unless given, the runs of
            ``xcnorm demo`` in the folder that one is in.
        data: The folder that holds the data of the runs' benchmark; see `xcnorm.data.load`.

    Raises:
        UserError: One cannot be opened, or they do not go together.
    """
    if not models and not Path(DEMO).is_dir():
        raise UserError(f"there is no {DEMO} here; make one with xcnorm demo, or name a run: xcnorm playground RUN")
    named = [one for model in models or [DEMO] for one in _runs_in(model)]
    if len(named) > _MOST:
        raise UserError(f"{len(named)} networks are too many to play with; name {_MOST} at most")
    experiments = [_experiment(one) for one in named]
    subjects = [_subject(one, experiment) for one, experiment in zip(named, experiments, strict=True)]
    tell_apart(subjects)
    benchmark, notes = _benchmark([e for e in experiments if e is not None], data)
    pixels = _common_size(subjects, benchmark)
    onlookers = [_onlooker(subject, benchmark, pixels) for subject in subjects]
    if benchmark is None:
        return Playground(onlookers, pixels, {}, "", notes)
    return Playground(onlookers, pixels, strips(benchmark, pixels), printable(benchmark.title), notes)


def _runs_in(model: str | Path) -> list[str | Path]:
    """The finished runs of a folder, plain networks first; whatever is no folder of runs, as it is."""
    path = Path(model).expanduser()
    if not path.is_dir() or (path / "config.toml").exists():
        return [model]
    found = find_runs(path)
    if not found.finished:
        reason = f": {found.broken[0].folder} is {found.broken[0].reason}" if found.broken else ""
        raise UserError(f"{path} holds no finished run{reason}; finish one with xcnorm demo or xcnorm train")
    layers = [str(run.settings["model.layer"]) for run in found.finished]
    places = [_FIRST.index(layer) if layer in _FIRST else len(_FIRST) for layer in layers]
    return [run.folder for _, run in sorted(zip(places, found.finished, strict=True), key=lambda pair: pair[0])]


def _experiment(model: str | Path) -> Experiment | None:
    path = Path(model).expanduser()
    return RunFolder(path).experiment() if path.is_dir() else None


def _subject(model: str | Path, experiment: Experiment | None) -> Subject:
    subject = open_model(model, torch.device("cpu"))
    if experiment is not None:
        subject.name = experiment.label or f"{experiment.method.name} {experiment.model.layer}"
    return subject


def _common_size(subjects: Sequence[Subject], benchmark: Benchmark | None) -> int:
    sizes = {subject.pixels: subject.name for subject in subjects if subject.pixels}
    if len(sizes) > 1:
        each = ", ".join(f"{name} {size}" for size, name in sizes.items())
        raise UserError(f"the networks see pictures of different sizes ({each} pixels); name those of one size")
    if sizes:
        return next(iter(sizes))
    if benchmark is None:
        raise UserError("no network says how large its pictures are; name a run beside it")
    return benchmark.validation.images.shape[-1]


def _benchmark(experiments: Sequence[Experiment], data: Path | str | None) -> tuple[Benchmark | None, list[str]]:
    """That of the first run, if its data is here."""
    if not experiments:
        return None, ["there are no samples: none of the networks is a run"]
    first = experiments[0]
    try:
        return load(first.benchmark, data, **first.benchmark_options), []
    except UserError as error:
        return None, [f"there are no samples: {error}"]


def _onlooker(subject: Subject, benchmark: Benchmark | None, pixels: int) -> Onlooker:
    trial = subject.normalisation or Normalisation((0.5,), (0.5,))
    subject.look_at_answers(torch.full((2, 3, pixels, pixels), 128, dtype=torch.uint8), trial, None)
    normalisation = subject.normalisation
    if normalisation is None:
        if benchmark is None or len(benchmark.classes) != subject.outputs:
            raise UserError(f"{subject.name} does not say how its pictures are normalised; name a run of its data too")
        images, labels = labelled(benchmark, pixels)
        normalisation, told = choose(subject, images, labels, None)
        subject.notes += told
    classes: Sequence[str] = subject.classes or tuple(map(str, range(subject.outputs)))
    if not subject.classes and benchmark is not None and len(benchmark.classes) == subject.outputs:
        classes = benchmark.classes
    return Onlooker(subject, normalisation, [printable(name) for name in classes])
