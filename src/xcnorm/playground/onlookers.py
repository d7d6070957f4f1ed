"""Onlookers: the networks of a playground, each asked what it takes a picture for."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from xcnorm.auditing.subject import Normalisation, Subject
from xcnorm.playground.maps import FirstMaps, drawn, moved
from xcnorm.playground.pictures import to_png

_ROWS = 10  # classes that are shown; of more, the likeliest


@dataclass(frozen=True)
class Seen:
    """What a network made of a picture.

    Attributes:
        probabilities: Of each class, ``(classes,)``.
        maps: The responses of its first layer; None where it cannot be looked into.
    """

    probabilities: Tensor
    maps: Tensor | None


class Onlooker:
    """A network that tells what it sees, and how far that has moved since the picture was as it was.

    Args:
        subject: The network.
        normalisation: What is done to pictures before it sees them.
        classes: The name of each of its answers.
    """

    def __init__(self, subject: Subject, normalisation: Normalisation, classes: Sequence[str]) -> None:
        self.name = subject.name
        self.notes = tuple(subject.notes)
        self._subject, self._normalisation, self._classes = subject, normalisation, classes
        self._last: tuple[Tensor, Seen] | None = None

    def compare(self, before: Tensor, now: Tensor) -> dict[str, Any]:
        """What it sees now, for the page.

        Args:
            before: The picture as it was, ``(1, 3, H, W)``, uint8.
            now: The picture as it is.
        """
        then = self._remembered(before)
        seen = self._look(now)
        places = list(range(len(self._classes)))
        if len(places) > _ROWS:
            places = seen.probabilities.topk(_ROWS).indices.tolist()
        best = int(seen.probabilities.argmax())
        answer: dict[str, Any] = {
            "name": self.name,
            "guess": self._row(seen, best),
            "rows": [self._row(seen, place) | {"best": place == best} for place in places],
            "maps": None,
        }
        if then.maps is not None and seen.maps is not None:
            answer["maps"] = {"png": to_png(drawn(then.maps, seen.maps)), "moved": moved(then.maps, seen.maps)}
        return answer

    def _row(self, seen: Seen, place: int) -> dict[str, Any]:
        return {"name": self._classes[place], "share": float(seen.probabilities[place])}

    def _remembered(self, picture: Tensor) -> Seen:
        """The same picture comes again with every move of a slider."""
        if self._last is None or not torch.equal(self._last[0], picture):
            self._last = (picture, self._look(picture))
        return self._last[1]

    def _look(self, picture: Tensor) -> Seen:
        first, module = FirstMaps(), self._subject.module
        with nullcontext() if module is None else first.watching(module):
            probabilities = self._subject.probabilities(picture, self._normalisation)[0]
        return Seen(probabilities, first.maps)
