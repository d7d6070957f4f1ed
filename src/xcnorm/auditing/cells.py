"""Cells: what subjects answer to a shard of pictures under one corruption, kept on disk as soon as it is known."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xcnorm._version import __version__
from xcnorm.auditing.pictures import Shard
from xcnorm.auditing.subject import Normalisation, Subject
from xcnorm.data.corruptions import corrupt
from xcnorm.data.grid import SEVERITIES
from xcnorm.files import disk_errors, replacing
from xcnorm.metrics import divergence

CLEAN = "clean"
_BATCH = 64


class Answered(NamedTuple):
    """What a subject answered to pictures under one corruption: a row for each severity, a column for each picture.

    Attributes:
        guess: The number of its most probable answer.
        confidence: The probability it gave to that.
        divergence: How far its prediction is from that for the clean picture.
    """

    guess: NDArray[np.int32]
    confidence: NDArray[np.float32]
    divergence: NDArray[np.float64]


class Asked(NamedTuple):
    """A subject, with what is done to pictures for it."""

    subject: Subject
    normalisation: Normalisation


class Cells:
    """The cells that are known already, and the folder they are kept in.

    Args:
        folder: Unless given, nothing is kept.
        seed: Seed of everything random in the corruptions.
    """

    def __init__(self, folder: Path | None, seed: int) -> None:
        self._folder, self._seed = folder, seed

    def ask(
        self, asked: Sequence[Asked], shard: Shard, corruptions: Sequence[str], progress: Callable[[int], None]
    ) -> list[dict[str, Answered]]:
        """Ask all subjects about a shard, clean and under every corruption; what was asked before is looked up.

        A corrupted picture is made once for all subjects. Only what some subject was not asked yet is made at all, and
        the pictures are not decoded where nothing is.

        Args:
            asked: The subjects.
            shard: The pictures.
            corruptions: Their names.
            progress: Is told of answers: one for each picture, severity and subject.

        Returns:
            For each subject what it answered, by corruption and under `CLEAN`.

        Raises:
            UserError: A picture cannot be read, a subject cannot take it, or the disk is full.
        """
        questions = _Questions(shard, self._seed)
        answers: list[dict[str, Answered]] = [{} for _ in asked]
        for name in (CLEAN, *corruptions):
            paths = [self._path(one, shard, name) for one in asked]
            for path, found in zip(paths, answers, strict=True):
                if (known := _read(path, name, len(shard))) is not None:
                    found[name] = known
            missing = [place for place, found in enumerate(answers) if name not in found]
            rows = questions.put([asked[place] for place in missing], name) if missing else []
            for place, answered in zip(missing, rows, strict=True):
                answers[place][name] = answered
                _write(paths[place], answered)
            progress(len(shard) * len(asked) * len(answers[0][name].guess))
        return answers

    def _path(self, asked: Asked, shard: Shard, name: str) -> Path | None:
        if self._folder is None:
            return None
        subject, normalisation = asked
        told = (subject.key, subject.softmax, subject.precision, subject.device.type, normalisation.mean)
        circumstances = (*told, normalisation.std, self._seed, _BATCH, torch.__version__, __version__)
        key = hashlib.sha256(repr((circumstances, shard.key)).encode()).hexdigest()[:24]
        return self._folder / key[:2] / f"{key}-{name}.npz"


class _Questions:
    """The pictures of a shard, decoded when they are needed, and what subjects say to the clean ones."""

    def __init__(self, shard: Shard, seed: int) -> None:
        self._shard, self._seed = shard, seed
        self._images: Tensor | None = None
        self._clean: dict[int, list[Tensor]] = {}

    def put(self, asked: Sequence[Asked], name: str) -> list[Answered]:
        """Ask subjects about all pictures under one corruption."""
        clean = [self._of_clean(one) for one in asked]
        severities: Sequence[int] = (0,) if name == CLEAN else SEVERITIES
        shape = (len(severities), len(self._shard))
        made = [Answered(np.zeros(shape, np.int32), np.zeros(shape, np.float32), np.zeros(shape)) for _ in asked]
        for row, severity in enumerate(severities):
            for number, (part, images) in enumerate(self._batches()):
                index = torch.arange(part.start, part.stop) + self._shard.start
                if severity:
                    images = corrupt(images.to(asked[0].subject.device), name, severity, self._seed, index)
                for one, before, answered in zip(asked, clean, made, strict=True):
                    expected = before[number]
                    found = one.subject.probabilities(images, one.normalisation) if severity else expected
                    confidence, guess = found.max(1)
                    answered.guess[row, part], answered.confidence[row, part] = guess, confidence
                    if severity:
                        answered.divergence[row, part] = divergence(expected, found)
        return made

    def _batches(self) -> Iterator[tuple[slice, Tensor]]:
        if self._images is None:
            self._images = self._shard.take(range(len(self._shard)))
        for start in range(0, len(self._images), _BATCH):
            part = slice(start, min(start + _BATCH, len(self._images)))
            yield part, self._images[part]

    def _of_clean(self, asked: Asked) -> list[Tensor]:
        subject = asked.subject
        if id(subject) not in self._clean:
            self._clean[id(subject)] = [subject.probabilities(i, asked.normalisation) for _, i in self._batches()]
        return self._clean[id(subject)]


def _write(path: Path | None, answered: Answered) -> None:
    if path is not None:
        with disk_errors(path, "choose another --out"), replacing(path) as part, part.open("wb") as file:
            np.savez(file, **answered._asdict())


def _read(path: Path | None, name: str, count: int) -> Answered | None:
    """What is kept, if it is there and whole."""
    shape = (1 if name == CLEAN else len(SEVERITIES), count)
    try:
        if path is None:
            return None
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            found = Answered(*(file[field] for field in Answered._fields))
    except Exception:  # the readers of zip files and of arrays raise anything where a file is damaged
        return None
    return found if all(array.shape == shape for array in found) else None
