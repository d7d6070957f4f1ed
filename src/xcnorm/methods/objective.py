"""What is minimised: the loss of a method, seen through an augmentation where there is one."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from xcnorm.methods.augmentation import Augmentation, disagreement
from xcnorm.methods.erm import ERM
from xcnorm.methods.method import Method
from xcnorm.methods.training import Training
from xcnorm.models import Network


class Objective(nn.Module):
    """A module whose output is the loss of a step, and whose parameters are all that the step may move.

    So whatever wraps modules, such as torch's DistributedDataParallel, works with every method.

    Args:
        method: What learns; an augmentation stands for ERM on its views.
        augmentation: What it sees images through.
        network: What is trained: `Training.network`, compiled perhaps.
        training: What the method sees of the training.
    """

    def __init__(self, method: Method, augmentation: Augmentation | None, network: Network, training: Training) -> None:
        super().__init__()
        self.augmentation = method if isinstance(method, Augmentation) else augmentation
        self.method = ERM() if isinstance(method, Augmentation) else method
        self.network = network
        self.method.begin(training)
        companion = self.method.companion()
        self.companion = None if companion is None else companion.to(training.device)
        self._others = 0  # views in front of what the method has drawn
        self._shared = True  # whether the first view is what the method asks about first

    def draw(self, images: Tensor, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Everything random about a step: a batch to what `forward` takes."""
        if self.augmentation is None:
            return self.method.draw(images, labels, generator)
        first, *others = self.augmentation.views_of(images, generator)
        drawn = self.method.draw(first, labels, generator)
        self._shared = drawn[0] is first
        if others and not self._shared:
            others.append(first)
        self._others = len(others)
        return *others, *drawn

    def forward(self, *drawn: Tensor) -> Tensor:
        """The loss."""
        others, drawn = drawn[: self._others], drawn[self._others :]
        if not others or self.augmentation is None:
            return self.method.loss(self.network, *drawn)
        if not self._shared:
            loss = self.method.loss(self.network, *drawn)
            return loss + self.augmentation.consistency * disagreement([self.network(view) for view in others])
        network = _Remembering(self.network, drawn[0])
        loss = self.method.loss(cast(Network, network), *drawn)
        answers = [network(drawn[0]), *(self.network(view) for view in others)]
        return loss + self.augmentation.consistency * disagreement(answers)

    def after(self, *drawn: Tensor) -> None:
        """What follows when the weights have moved."""
        self.method.after(self.network, *drawn[self._others :])


class _Remembering:
    """A network that answers one batch once: methods ask about the first view, and so does the consistency."""

    def __init__(self, network: Network, batch: Tensor) -> None:
        self._network, self._batch = network, batch
        self._answer: Tensor | None = None

    def __call__(self, images: Tensor) -> Tensor:
        if images is not self._batch:
            return self._network(images)
        if self._answer is None:
            self._answer = self._network(images)
        return self._answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)
