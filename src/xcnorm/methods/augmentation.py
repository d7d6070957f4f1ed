"""Augmentations: random views of a batch, on top of any method.

An augmentation stands in an experiment's ``method.augment``, beside the method that learns from its views; or in
``method.name``, where that method is ERM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from xcnorm.data.training_images import Preparation
from xcnorm.errors import UserError, unknown_name
from xcnorm.methods.method import METHODS, Method, Numbers
from xcnorm.methods.training import Training

_LEAST = 1e-7  # of a mean probability, before its logarithm


@dataclass
class Augmentation(Method):
    """What a method sees the images through. Subclasses are registered like methods.

    Attributes:
        consistency: The weight of the `disagreement` between the answers to several views.
    """

    consistency: float = 0.0

    capturable = True

    _prepare = Preparation()  # until training begins
    _batch = 0
    _part = slice(None)

    @property
    def learned(self) -> int:
        """How many of the views are learned from, the first of them; their losses are added."""
        return 1

    def begin(self, training: Training) -> None:
        """Learn what images look like to the network, and which of a batch are this process's."""
        super().begin(training)
        self._prepare = training.images.prepare
        self._part = training.part
        self._batch = 0 if training.part == slice(0, training.batch) else training.batch

    def draw_numbers(self, shape: torch.Size, generator: torch.Generator) -> Numbers:
        """All that is random about the views of a batch, on the CPU.

        The first axis of each tensor is that of the images, or is 1 where a number is for the batch as a whole; the
        rest of its shape is always the same, so that the numbers of several batches can be joined.

        Args:
            shape: Of the images, ``(N, C, H, W)``.
            generator: Where random numbers come from.
        """
        return ()

    def views_with(self, images: Tensor, *numbers: Tensor) -> list[Tensor]:
        """What is seen in place of a batch: views to learn from, and more where their answers must agree.

        Args:
            images: ``(N, C, H, W)``; or those of several batches, one batch after the other.
            *numbers: What `draw_numbers` made for it; or for several, joined along the first axis.
        """
        raise NotImplementedError

    def views_of(self, images: Tensor, generator: torch.Generator) -> list[Tensor]:
        """The views of one batch; an augmentation that must see images before it draws has this alone."""
        return self.views_with(images, *self.draw_numbers(images.shape, generator))

    def disagreement(self, answers: list[Tensor]) -> Tensor:
        """How far the answers to the views, as logits, are from one another."""
        return disagreement(answers)

    def each(self, shape: torch.Size, draw: Callable[[int], Tensor]) -> Tensor:
        """Random numbers for each image, drawn for those of all processes and cut to this one's.

        Args:
            shape: Of the images, ``(N, C, H, W)``.
            draw: From a number of images to their random numbers, along the first axis.
        """
        return draw(self._batch)[self._part] if self._batch else draw(shape[0])

    def pictures(self, images: Tensor) -> Tensor:
        """What the network sees, as pictures with values from 0 to 1."""
        return self._prepare.undo(images).clamp(0, 1)

    def inputs(self, pictures: Tensor) -> Tensor:
        """Pictures with values from 0 to 1, as the network sees them."""
        return self._prepare(pictures)

    def refuse(self, name: str, wanted: str) -> UserError:
        """The error that says what a setting must be, and what it is."""
        return UserError(f"{name} of method {self.name} must be {wanted}, not {getattr(self, name)!r}")


def find_augmentation(name: str) -> type[Augmentation]:
    """A method by name that can stand beside another one.

    Raises:
        UserError: There is none of that name.
    """
    known = {known: method for known, method in METHODS.items() if issubclass(method, Augmentation)}
    if name not in known:
        raise UserError(unknown_name("augmentation", name, known))
    return known[name]


def grouped(numbers: Sequence[Tensor], size: int) -> list[Sequence[Tensor]]:
    """So many at a time."""
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]


def disagreement(logits: list[Tensor]) -> Tensor:
    """The mean divergence of several answers from their mean, KL(answer || mean), averaged over images."""
    logs = [F.log_softmax(answer, 1) for answer in logits]
    mean = log_mean(logs)
    return torch.stack([(log.exp() * (log - mean)).sum(1).mean() for log in logs]).mean()


def log_mean(logs: list[Tensor]) -> Tensor:
    """The logarithm of the mean of probabilities, which are given by theirs, kept away from that of zero."""
    return torch.stack(logs).exp().mean(0).clamp_min(_LEAST).log()
