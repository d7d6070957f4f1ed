"""Contact sheets: a few pictures of each domain, with what two arms took them for and how sure they were."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from xcnorm.data import Domain, load, transforms
from xcnorm.data.readers import read_npz_array
from xcnorm.errors import UserError
from xcnorm.report.arms import Arm
from xcnorm.report.build import Section
from xcnorm.report.runs import Run

_FILE = "predictions.npz"
_COLUMNS = 8
_ROWS = 8


@dataclass(frozen=True)
class Guess:
    """What an arm took a picture for.

    Attributes:
        arm: The arm.
        name: The class it chose.
        confidence: The probability it gave to that class.
        right: Whether that is what the picture shows.
    """

    arm: str
    name: str
    confidence: float
    right: bool


@dataclass(frozen=True)
class Picture:
    """A picture of a domain.

    Attributes:
        pixels: ``(H, W, 3)``, uint8.
        truth: What it shows.
        guesses: What each arm took it for.
    """

    pixels: NDArray[np.uint8]
    truth: str
    guesses: tuple[Guess, ...]


@dataclass(frozen=True)
class Sheet:
    """A contact sheet.

    Attributes:
        title: Its heading.
        rows: The pictures of each domain, by its name.
    """

    title: str
    rows: Mapping[str, tuple[Picture, ...]]


def make_sheet(section: Section, selection: str, root: Path | None = None) -> Sheet:
    """Make the contact sheet of a section: its first arm beside the one that does best, on the same seed and source.

    The targets are shown at their highest severity, where they have one, and eight of them at most.

    Args:
        section: What to show.
        selection: Whose predictions to show.
        root: The folder that holds the data; see `xcnorm.data.load`.

    Raises:
        UserError: The images or the predictions are not here, or do not belong together.
    """
    shown = _shown(section, selection)
    for run in shown.values():  # before the images, which may take long to load
        if not (run.folder / _FILE).is_file():
            raise UserError(f"{run.folder / _FILE} is missing")
    run = next(iter(shown.values()))
    benchmark = load(run.benchmark, root, **run.config.get("benchmark_options", {}))
    rows = {"source": _row("source", benchmark.validation, shown, selection)}
    for name in shown_targets(benchmark.targets):
        rows[name] = _row(f"targets/{name}", benchmark.targets[name], shown, selection)
    places = ("above", "below") if len(shown) > 1 else ("alone",)
    whose = " and ".join(f"{label} ({place})" for label, place in zip(shown, places, strict=True))
    return Sheet(f"{section.title}: predictions of {whose}, seed {run.seed}", rows)


def _shown(section: Section, selection: str) -> dict[str, Run]:
    """The runs whose guesses are shown, by the label of their arm."""
    first, *others = [arm for arm in section.arms if arm.runs]
    run = first.runs[0]
    twins = {arm.label: twin for arm in others if (twin := _twin(arm, run)) is not None}
    best = max(twins, key=lambda label: np.mean(list(twins[label].targets(selection).values()) or [0]), default=None)
    return {first.label: run} | ({} if best is None else {best: twins[best]})


def _twin(arm: Arm, run: Run) -> Run | None:
    return next((twin for twin in arm.runs if (twin.seed, twin.source) == (run.seed, run.source)), None)


def _row(key: str, domain: Domain, shown: Mapping[str, Run], selection: str) -> tuple[Picture, ...]:
    labels = domain.labels.numpy()
    guesses = {arm: _predictions(run, key, selection, labels) for arm, run in shown.items()}
    classes = next(iter(shown.values())).metrics["classes"]
    index = torch.tensor(list(chosen_pictures(labels, len(classes))), dtype=torch.int64)
    pixels = transforms.grey_to_rgb(domain.images[index]).permute(0, 2, 3, 1).numpy()
    pictures = []
    for place, image in zip(index.tolist(), pixels, strict=True):
        truth = int(labels[place])
        made = []
        for arm, probabilities in guesses.items():
            guess = int(probabilities[place].argmax())
            made.append(Guess(arm, str(classes[guess]), float(probabilities[place, guess]), guess == truth))
        pictures.append(Picture(image, str(classes[truth]), tuple(made)))
    return tuple(pictures)


def shown_targets(targets: Iterable[str]) -> list[str]:
    """The names of eight targets at most: of a corruption at five severities the highest."""
    names = [name for name in targets if "/" not in name or name.endswith("/5")]
    return names[:: -(-len(names) // _ROWS) or 1]


def chosen_pictures(labels: NDArray[np.int64], classes: int, count: int = _COLUMNS) -> Iterator[int]:
    """The places of the first picture of each class, then of the second, until there are enough."""
    for column in range(count):
        found = np.flatnonzero(labels == column % classes)
        if len(found) > column // classes:
            yield int(found[column // classes])


def _predictions(run: Run, key: str, selection: str, labels: NDArray[np.int64]) -> NDArray[np.float16]:
    path = run.folder / _FILE
    try:
        stored, probabilities = (read_npz_array(path, f"{what}/{key}") for what in ("labels", selection))
    except UserError as error:
        reason = str(error).removesuffix("; fetch it again")
        raise UserError(f"{reason}; test the run again: xcnorm evaluate {run.folder}") from error
    if not np.array_equal(stored, labels) or probabilities.shape != (len(labels), len(run.metrics["classes"])):
        raise UserError(f"{path} was made on other images of {key} than those that are here now")
    return probabilities
