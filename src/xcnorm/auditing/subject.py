"""The subject of an audit: a network, whatever it was made with, as a function from pictures to probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from xcnorm.data import transforms
from xcnorm.engine.precision import precision
from xcnorm.errors import UserError, printable
from xcnorm.models import About

# By how much answers to one picture may differ from one question to the next, relative to the largest one: half
# precision rounds differently in batches of different sizes.
_STEADY = 0.02


@dataclass(frozen=True)
class Normalisation:
    """What is done to values from 0 to 1 before a network sees them.

    Attributes:
        mean: Subtracted; one number, or one for each channel.
        std: What they are then divided by.
        origin: Where that is known from.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    origin: str = ""

    def __str__(self) -> str:
        mean, std = (", ".join(f"{number:g}" for number in numbers) for numbers in (self.mean, self.std))
        return f"mean {mean} and std {std}"


@dataclass
class Subject:
    """A network that is audited.

    Attributes:
        name: What it is called in the results.
        forward: From normalised pictures, ``(N, C, H, W)``, to whatever it answers.
        key: Changes when the network does, so that what is kept of it is not taken for another's.
        device: Where it computes.
        module: Whose training mode is switched off meanwhile, where it has one.
        normalisation: What it was trained with, where that is known.
        pixels: Height and width it was made for, where that is known.
        classes: The name of each of its answers, where they are known.
        batch: How many pictures it takes at a time, where that is fixed.
        softmax: Whether its answers become probabilities by a softmax; else they are such already.
        precision: How exactly it computes, as in an experiment's ``run.precision``.
        outputs: How many answers it has; known once they were looked at.
        notes: What a reader must know about it.
    """

    name: str
    forward: Callable[[Tensor], Any]
    key: str
    device: torch.device
    module: nn.Module | None = None
    normalisation: Normalisation | None = None
    pixels: int | None = None
    classes: tuple[str, ...] | None = None
    batch: int | None = None
    softmax: bool = True
    precision: str = "float32"
    outputs: int = 0
    notes: list[str] = field(default_factory=list)

    def with_about(self, about: About, origin: str) -> Subject:
        """The same with what is known of it; a size that it has already stays.

        Args:
            about: What is known.
            origin: Where from.
        """
        own = None
        if about.mean is not None and about.std is not None:
            own = Normalisation(about.mean, about.std, origin)
        return replace(self, normalisation=own, pixels=self.pixels or about.pixels, classes=about.classes or None)

    @torch.no_grad()
    def answers(self, images: Tensor, normalisation: Normalisation) -> Tensor:
        """What it answers, ``(N, classes)``, float32 on the CPU.

        Args:
            images: ``(N, C, H, W)``, uint8.
            normalisation: What is done to them.

        Raises:
            UserError: It cannot take them, or answers with something else.
        """
        with _evaluating(self.module), precision(self.precision):
            parts = []
            for part in images.split(self.batch or len(images)):
                whole = part
                if self.batch and len(part) < self.batch:  # the last pictures of a network of a fixed batch
                    whole = torch.cat([part, part[-1:].expand(self.batch - len(part), -1, -1, -1)])
                inputs = transforms.normalise(whole.to(self.device), normalisation.mean, normalisation.std)
                try:
                    answered = self.forward(inputs)
                except Exception as error:
                    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
                    raise UserError(
                        f"{self.name} cannot take pictures of the shape {tuple(inputs.shape)}: {reason}; "
                        "give the size it was made for (--pixels)"
                    ) from error
                parts.append(self._rows(answered, len(whole))[: len(part)])
        return torch.cat(parts)

    def probabilities(self, images: Tensor, normalisation: Normalisation) -> Tensor:
        """The probability of each class, ``(N, classes)``, float32 on the CPU; see `answers`."""
        answers = self.answers(images, normalisation)
        if not answers.isfinite().all():
            raise UserError(
                f"{self.name} answers with numbers that are not finite; its weights or its input are broken"
            )
        if self.softmax:
            return answers.softmax(1)
        return answers.clamp_min(0) / answers.clamp_min(0).sum(1, keepdim=True).clamp_min(1e-12)

    def look_at_answers(self, images: Tensor, normalisation: Normalisation, classes: int | None) -> None:
        """Find out what its answers are: probabilities or what becomes such; and whether they can be relied on.

        Args:
            images: A few pictures.
            normalisation: Any.
            classes: How many answers are needed where they have no names.

        Raises:
            UserError: It has another number of answers.
        """
        answers = self.answers(images, normalisation)
        self.outputs = answers.shape[1]
        expected = len(self.classes) if self.classes else classes
        if expected is not None and answers.shape[1] != expected:
            raise UserError(
                f"{self.name} answers with {answers.shape[1]} numbers, but there are {expected} classes; "
                "give a folder with one folder for each class that it knows, in its order"
            )
        sums = answers.sum(1)
        self.softmax = not bool((answers >= 0).all() and ((sums - 1).abs() < 1e-3).all())
        if not self.softmax:
            self.notes.append("its answers are probabilities already; no softmax was applied")
        slight = _STEADY * answers.abs().max()
        if (answers - self.answers(images, normalisation)).abs().max() > slight:
            self.notes.append(
                "it answers differently when it is asked again, as with dropout that is still on: "
                "make it in evaluation mode"
            )
        elif len(images) > 1 and (answers[:1] - self.answers(images[:1], normalisation)).abs().max() > slight:
            self.notes.append(
                "its answer to a picture depends on the other pictures of the batch, as with batch norm in training "
                "mode: make it in evaluation mode"
            )

    def _rows(self, answered: Any, count: int) -> Tensor:
        """The answers in whatever it returned."""
        if not isinstance(answered, Tensor):
            if isinstance(answered, Mapping) and "logits" in answered:
                answered = answered["logits"]
            elif hasattr(answered, "logits"):
                answered = answered.logits
            elif isinstance(answered, Sequence) and answered:
                answered = answered[0]
        if not isinstance(answered, Tensor) or answered.ndim != 2 or len(answered) != count:
            shape = tuple(answered.shape) if isinstance(answered, Tensor) else type(answered).__name__
            raise UserError(f"{self.name} must answer with a row of numbers for each of {count} pictures, not {shape}")
        return answered.float().cpu()


def tell_apart(subjects: Sequence[Subject]) -> None:
    """Make the names of subjects printable, and give those of one name a number."""
    seen: dict[str, int] = {}
    for subject in subjects:
        subject.name = printable(subject.name)
        seen[subject.name] = seen.get(subject.name, 0) + 1
        if seen[subject.name] > 1:
            subject.name += f" ({seen[subject.name]})"


@contextmanager
def _evaluating(module: nn.Module | None) -> Iterator[None]:
    """Evaluation mode, and every part back in its own mode afterwards."""
    modes = {} if module is None else {part: part.training for part in module.modules()}
    if module is not None:
        module.eval()
    try:
        yield
    finally:
        for part, training in modes.items():
            part.training = training
