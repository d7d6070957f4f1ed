"""Audits: what was found, as numbers that can be saved, loaded, compared and shown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from xcnorm.data.corruptions import CATEGORIES, published, standard
from xcnorm.data.grid import SEVERITIES
from xcnorm.files import disk_errors, write_text
from xcnorm.metrics import by_category, severity_means

FORMAT = 1


@dataclass(frozen=True)
class Scored:
    """How well pictures of one kind are recognised.

    Attributes:
        accuracy: The share that is recognised.
        confidence: The mean probability of the class that was chosen.
        calibration_error: As in `xcnorm.metrics.score`.
    """

    accuracy: float
    confidence: float
    calibration_error: float


@dataclass(frozen=True)
class ScoredClass:
    """How well the pictures of one class are recognised.

    Attributes:
        name: The class.
        count: How many pictures it has.
        clean: The share of clean ones that is recognised.
        corrupted: The same under all corruptions at all severities.
        worst: The corruption under which the fewest are, over all severities.
    """

    name: str
    count: int
    clean: float
    corrupted: float
    worst: str

    @property
    def drop(self) -> float:
        """What corruption costs."""
        return self.clean - self.corrupted


@dataclass(frozen=True)
class Specimen:
    """A picture that breaks early: it is recognised when clean, and no longer under the mildest of corruptions.

    Attributes:
        name: The picture.
        truth: The class it shows.
        confidence: The probability that the network gives to that class when the picture is clean.
        withstood: How many severities it withstands, from 0 to 5, on average over the corruptions.
        corruption: One that breaks it first.
        severity: At which severity.
        guess: What it is taken for there.
        guess_confidence: The probability of that.
        clean_png: The clean picture, a PNG file in base64.
        broken_png: The corrupted one.
    """

    name: str
    truth: str
    confidence: float
    withstood: float
    corruption: str
    severity: int
    guess: str
    guess_confidence: float
    clean_png: str
    broken_png: str


@dataclass(frozen=True)
class AuditedModel:
    """What was found about one model.

    Attributes:
        name: The model.
        normalisation: What was done to pictures for it, in words.
        notes: What a reader must know.
        clean: How well clean pictures are recognised.
        cells: How well corrupted ones are, by ``"corruption/severity"``.
        robustness: The Model Robustness Score of each corruption; lower is better.
        classes: The classes that have pictures.
        specimens: The pictures that break first, the first one first.
        mce: The mean corruption error against the baseline, in percent; None without one.
        relative_mce: The same of the errors that corruption adds.
    """

    name: str
    normalisation: str
    notes: tuple[str, ...]
    clean: Scored
    cells: Mapping[str, Scored]
    robustness: Mapping[str, float]
    classes: tuple[ScoredClass, ...]
    specimens: tuple[Specimen, ...]
    mce: float | None = None
    relative_mce: float | None = None

    @property
    def accuracies(self) -> dict[str, float]:
        """The accuracy of each cell."""
        return {cell: scored.accuracy for cell, scored in self.cells.items()}

    @property
    def by_corruption(self) -> dict[str, float]:
        """The accuracy under each corruption, over its severities."""
        return {name: fmean(self.accuracies[f"{name}/{s}"] for s in SEVERITIES) for name in self.robustness}

    @property
    def by_severity(self) -> dict[int, float]:
        """The accuracy at each severity, over the corruptions; at 0 that of clean pictures."""
        return {0: self.clean.accuracy} | severity_means(self.accuracies, self.robustness)

    @property
    def corrupted(self) -> float:
        """The accuracy over all corruptions and severities."""
        return fmean(self.accuracies.values())

    @property
    def drop(self) -> float:
        """What corruption costs: the accuracy on clean pictures minus that on corrupted ones."""
        return self.clean.accuracy - self.corrupted

    @property
    def confidence(self) -> float:
        """The mean confidence over all corruptions and severities."""
        return fmean(scored.confidence for scored in self.cells.values())

    @property
    def calibration_error(self) -> float:
        """The mean calibration error over all corruptions and severities."""
        return fmean(scored.calibration_error for scored in self.cells.values())

    def categories(self, grouping: str) -> dict[str, float]:
        """The accuracy of each category of a grouping of `xcnorm.data.corruptions.CATEGORIES`."""
        return by_category(self.by_corruption, CATEGORIES[grouping])

    @property
    def robustness_categories(self) -> dict[str, float]:
        """The Model Robustness Score of each of its five categories."""
        return by_category(self.robustness, CATEGORIES["mrs5"])


@dataclass(frozen=True)
class Audit:
    """What an audit has found.

    Attributes:
        data: The pictures, in words.
        count: How many there are.
        size: Their height and width.
        constants: Whose strengths the corruptions have: ``"cifar"`` for small pictures, ``"imagenet"`` for large ones.
        seed: Seed of everything random.
        corruptions: Which ones were tried.
        models: The models, in the order they were given in.
        baseline: The model that mean corruption errors are relative to.
        version: The xcnorm that made it.

    Example:
        >>> import torch, xcnorm
        >>> pictures = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
        >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 2))
        >>> batches = [(pictures, torch.arange(8) % 2)]
        >>> found = xcnorm.audit(model, batches, corruptions="fog,contrast", mean=0.5, std=0.5, device="cpu")
        >>> list(found.models[0].robustness)
        ['fog', 'contrast']
    """

    data: str
    count: int
    size: tuple[int, int]
    constants: str
    seed: int
    corruptions: tuple[str, ...]
    models: tuple[AuditedModel, ...]
    baseline: str | None = None
    version: str = ""

    @property
    def types(self) -> str:
        """Which corruptions these are, in words: fifteen or nineteen is not the same."""
        if self.corruptions == standard():
            return "the 15 standard corruptions"
        if self.corruptions == published():
            return "19 corruptions: the 15 standard ones and the 4 for validation"
        number = len(self.corruptions)
        return f"{number} chosen corruption{'s' * (number > 1)}: {', '.join(self.corruptions)}"

    @property
    def grouping(self) -> str:
        """The grouping whose categories accuracies are averaged over."""
        if set(self.corruptions) <= set(standard()):
            return "sdg4"
        return "all19" if set(self.corruptions) <= set(published()) else "all"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        values = asdict(self)
        for model, written in zip(self.models, values["models"], strict=True):
            written["mean"] = {"corrupted": model.corrupted, "drop": model.drop}
            written["mean"] |= {"confidence": model.confidence, "calibration_error": model.calibration_error}
            written["categories"] = {self.grouping: model.categories(self.grouping)}
            written["robustness_categories"] = model.robustness_categories
        return {"format": FORMAT, "kind": "audit", **values}

    def to_json(self) -> str:
        """All numbers, and the pictures that break first."""
        return json.dumps(self.to_dict(), indent=1) + "\n"

    def save(self, path: Path | str) -> None:
        """Write it: as JSON, which `load_audit` reads, or as a page if the file's name ends in ``.html``.

        Raises:
            UserError: The file cannot be written, or matplotlib is missing, which the page's charts need.
        """
        from xcnorm.auditing.page import page

        path = Path(path)
        text = page(self) if path.suffix.lower() in (".html", ".htm") else self.to_json()
        with disk_errors(path, "choose another file"):
            write_text(path, text)

    def __str__(self) -> str:
        from xcnorm.auditing.verdict import verdict

        return "\n\n".join(verdict(self, model) for model in self.models)


def corruption_errors(model: AuditedModel, baseline: AuditedModel) -> tuple[float, float, Sequence[str]] | None:
    """The mean corruption error and the relative one against a baseline, in percent.

    Args:
        model: Whose errors.
        baseline: To whom they are relative.

    Returns:
        Both, and the corruptions that both models were tried on and the baseline errs under; None if there are none.
        The relative one is NaN where corruption costs the baseline nothing.
    """
    ours, theirs = model.by_corruption, baseline.by_corruption
    names = [name for name in ours if theirs.get(name, 1.0) < 1]
    if not names:
        return None
    plain = fmean((1 - ours[name]) / (1 - theirs[name]) for name in names)
    added = [name for name in names if baseline.clean.accuracy - theirs[name] > 0]
    relative = [(model.clean.accuracy - ours[name]) / (baseline.clean.accuracy - theirs[name]) for name in added]
    return 100 * plain, 100 * fmean(relative) if relative else float("nan"), names
