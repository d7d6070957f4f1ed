"""The playground itself: what the page is told when it opens, and what it gets for a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from xcnorm.data import photographs
from xcnorm.data.synthesis import blend
from xcnorm.errors import UserError
from xcnorm.playground.controls import CONTROLS, PRESETS, change, settings
from xcnorm.playground.onlookers import Onlooker
from xcnorm.playground.pictures import from_drawing, from_file, from_png, to_png
from xcnorm.playground.samples import Sample

_CROP = 3  # which of the random crops is the backdrop: leaves, neither the easiest of them nor the hardest


class Playground:
    """Networks, and pictures for them to look at. It keeps nothing of what the page asks.

    Args:
        onlookers: The networks.
        pixels: Height and width of the pictures that they see.
        samples: Pictures to start from, by domain.
        title: What they were trained on.
        notes: What somebody who plays must know.
    """

    def __init__(
        self,
        onlookers: Sequence[Onlooker],
        pixels: int,
        samples: Mapping[str, Sequence[Sample]],
        title: str = "",
        notes: Sequence[str] = (),
    ) -> None:
        self.onlookers, self.pixels, self.samples, self.title = onlookers, pixels, samples, title
        self._controls = dict(CONTROLS)
        self._notes = [*notes, *(f"{one.name}: {note}" for one in onlookers for note in one.notes)]
        self._backdrop = torch.zeros(1, 3, pixels, pixels, dtype=torch.uint8)
        try:
            self._backdrop = backdrop(pixels)
        except UserError as error:  # the photographs come with a package of an extra
            del self._controls["background"]
            self._notes.append(f"there is no background: {error}")

    def about(self) -> dict[str, Any]:
        """What the page is made of."""
        return {
            "title": self.title,
            "notes": self._notes,
            "pixels": self.pixels,
            "networks": [onlooker.name for onlooker in self.onlookers],
            "controls": [{"name": name, **asdict(control)} for name, control in self._controls.items()],
            "presets": {name: values for name, values in PRESETS.items() if values.keys() <= self._controls.keys()},
            "samples": [
                {"domain": name, "pictures": [{"png": to_png(one.picture), "truth": one.truth} for one in strip]}
                for name, strip in self.samples.items()
            ],
        }

    def fit(self, content: bytes, drawn: bool) -> dict[str, Any]:
        """A picture file as networks would see it.

        Args:
            content: The file.
            drawn: Whether it was drawn on the page, and is to be centred.

        Raises:
            UserError: It is no picture, or too large.
        """
        return {"picture": to_png((from_drawing if drawn else from_file)(content, self.pixels))}

    def look(self, question: object) -> dict[str, Any]:
        """A picture, changed once for all networks, and what each of them takes it for.

        Args:
            question: A table of ``picture``, as `fit` answers, and ``changes``, values of controls by name.

        Raises:
            UserError: It is anything else.
        """
        if not isinstance(question, dict) or question.keys() != {"picture", "changes"}:
            raise UserError("a question is a table of picture and changes")
        if not isinstance(question["changes"], dict):
            raise UserError("changes must be a table of controls and their values")
        values = settings(question["changes"])
        before = from_png(question["picture"], self.pixels)
        now = change(before, values, self._backdrop)
        return {"seen": to_png(now), "networks": [onlooker.compare(before, now) for onlooker in self.onlookers]}


def backdrop(pixels: int) -> Tensor:
    """A piece of a photograph, ``(1, 3, pixels, pixels)``, uint8, cut out as for MNIST-M.

    Raises:
        UserError: The photographs are not installed.
    """
    found = [photograph.unsqueeze(0) for photograph in photographs()]
    least = min(min(photograph.shape[2:]) for photograph in found)
    if least < pixels:
        found = [F.interpolate(photograph, scale_factor=1 + pixels / least, mode="bilinear") for photograph in found]
    black = torch.zeros(1, 1, pixels, pixels, dtype=torch.uint8)
    return blend(black, [photograph[0] for photograph in found], index=torch.tensor([_CROP]))
