"""Parts: what a benchmark is read from, each in one of several forms on disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xcnorm.data.domain import LabelledImages
from xcnorm.errors import UserError


class MissingPartError(UserError):
    """A part is not in the data root. For a target that is no reason to stop."""


@dataclass(frozen=True)
class Form:
    """One way for a part to lie on disk.

    Attributes:
        files: Files or folders below the data root, with forward slashes. One that is not where its path says is also
            looked for in the data root itself.
        read: Reads them, given their paths in the same order.
        note: What a reader of a table must know about this form; empty for the published one.
        count: How many images there should be; None where it may vary.
    """

    files: tuple[str, ...]
    read: Callable[..., Any]
    note: str = ""
    count: int | None = None


@dataclass(frozen=True)
class Part:
    """A part of a benchmark, such as the test images of SVHN.

    Attributes:
        name: What it is called in messages.
        forms: The forms it may have, best first.
        remedy: What to do when it is missing, with ``{root}`` for the data root; empty where ``xcnorm data download``
            fetches it.
        target: Whether it is a target, which may be missing.
        channels: How many channels its images have.
        classes: How many classes they show.
    """

    name: str
    forms: tuple[Form, ...]
    remedy: str = ""
    target: bool = False
    channels: int = 3
    classes: int = 10

    def find(self, root: Path, benchmark: str) -> tuple[Form, list[Path]]:
        """The first form that is there, and its paths.

        Raises:
            MissingPartError: None is there; the message says what to do.
        """
        incomplete = ""
        for form in self.forms:
            places = [_locate(root, file) for file in form.files]
            found = [place for place in places if place is not None]
            if len(found) == len(places):
                return form, found
            if found and not incomplete:
                absent = [file for file, place in zip(form.files, places, strict=True) if place is None]
                incomplete = f" ({', '.join(place.name for place in found)} is there, {', '.join(absent)} is not)"
        expected = " or ".join(" + ".join(form.files) for form in self.forms)
        remedy = self.remedy or f"fetch it with: xcnorm data download {benchmark} --data {{root}}"
        remedy = remedy.replace("{root}", str(root))
        raise MissingPartError(f"{self.name} is not in {root}: no {expected}{incomplete}; {remedy}")

    def read(self, root: Path, benchmark: str) -> tuple[Any, str]:
        """What was read, and the note of its form.

        Raises:
            MissingPartError: The part is not there.
            UserError: A file is damaged, or holds another number of images than was published.
        """
        form, paths = self.find(root, benchmark)
        data = form.read(*paths)
        if isinstance(data, LabelledImages):
            self._check(data, form, paths[0])
        return data, form.note

    def _check(self, data: LabelledImages, form: Form, path: Path) -> None:
        """Find out whether somebody put another set under this name."""
        found = f"{path} is not {self.name}"
        if form.count not in (None, len(data.labels)):
            raise UserError(f"{found}: it holds {len(data.labels):,} images, not {form.count:,}; fetch it again")
        if data.images.ndim == 4 and data.images.shape[1] != self.channels:
            raise UserError(f"{found}: its images have {data.images.shape[1]} channels, not {self.channels}")
        if len(data.labels) and int(data.labels.max()) >= self.classes:
            raise UserError(f"{found}: it has a label {int(data.labels.max())}, but {self.classes} classes")


@dataclass(frozen=True)
class Finding:
    """What was found of one part of a benchmark.

    Attributes:
        part: Its name.
        state: ``"ok"``, ``"missing"`` or ``"damaged"``.
        target: Whether it is a target, which may be missing.
        detail: How many images there are, or what is wrong and what to do.
    """

    part: str
    state: str
    target: bool
    detail: str


def _locate(root: Path, file: str) -> Path | None:
    for place in (root / file, root / Path(file).name):
        if place.exists():
            return place
    return None
