"""Specimens: the pictures that break first, found while shards go by, so that none has to be kept."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from xcnorm.auditing.cells import CLEAN, Answered
from xcnorm.auditing.pictures import Shard
from xcnorm.auditing.result import Specimen
from xcnorm.data.corruptions import corrupt
from xcnorm.data.transforms import grey_to_rgb

KEPT = 8


class Specimens:
    """The pictures of one subject that break first, among those that went by.

    Args:
        names: What its answers are called.
        truths: The answer that is right for each label.
        seed: Seed of everything random in the corruptions.
    """

    def __init__(self, names: Sequence[str], truths: Tensor, seed: int) -> None:
        self._names, self._truths, self._seed = names, truths.numpy(), seed
        self._found: list[tuple[tuple[float, int], Specimen]] = []

    def offer(self, shard: Shard, answers: Mapping[str, Answered]) -> None:
        """Look at another shard; of its pictures only those that are shown are decoded."""
        truths = self._truths[shard.labels.numpy()]
        held = withstood(answers, truths)
        order = sorted((float(held[place]), place) for place in np.flatnonzero(~np.isnan(held)).tolist())
        for share, place in order[:KEPT]:
            rank = (share, shard.start + place)
            if share < 5 and (len(self._found) < KEPT or rank < self._found[-1][0]):
                specimen = self._specimen(shard, place, answers, int(truths[place]), share)
                self._found = sorted([*self._found, (rank, specimen)], key=lambda found: found[0])[:KEPT]

    @property
    def found(self) -> tuple[Specimen, ...]:
        """The pictures, the first to break first."""
        return tuple(specimen for _, specimen in self._found)

    def _specimen(
        self, shard: Shard, place: int, answers: Mapping[str, Answered], truth: int, share: float
    ) -> Specimen:
        def first(name: str) -> tuple[int, float]:
            """The first severity that breaks it, and of equals the one where it is surest of its error."""
            wrong = np.flatnonzero(answers[name].guess[:, place] != truth)
            return (int(wrong[0]), -float(answers[name].confidence[wrong[0], place])) if len(wrong) else (5, 0.0)

        corruption = min((name for name in answers if name != CLEAN), key=first)
        row, minus = first(corruption)
        image = shard.take([place])
        index = torch.tensor([shard.start + place])
        return Specimen(
            name=shard.names[place],
            truth=self._names[truth],
            confidence=float(answers[CLEAN].confidence[0, place]),
            withstood=share,
            corruption=corruption,
            severity=row + 1,
            guess=self._names[int(answers[corruption].guess[row, place])],
            guess_confidence=-minus,
            clean_png=_png(image),
            broken_png=_png(corrupt(image, corruption, row + 1, self._seed, index)),
        )


def withstood(answers: Mapping[str, Answered], truths: NDArray[np.int64]) -> NDArray[np.float64]:
    """How many severities each picture withstands before the first error, on average over the corruptions.

    Args:
        answers: What a subject answered, by corruption.
        truths: What is right.

    Returns:
        ``(N,)``, from 0 to 5; NaN for pictures that are not recognised when clean.
    """
    held = [np.cumprod(a.guess == truths, axis=0).sum(axis=0) for name, a in answers.items() if name != CLEAN]
    return np.where(answers[CLEAN].guess[0] == truths, np.mean(held, axis=0), np.nan)


def _png(image: Tensor) -> str:
    buffer = io.BytesIO()
    Image.fromarray(grey_to_rgb(image)[0].permute(1, 2, 0).contiguous().numpy()).save(buffer, "png")
    return base64.b64encode(buffer.getvalue()).decode()
