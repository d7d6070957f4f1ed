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
        network = _Remembering(self.network)
        loss = self.method.loss(cast(Network, network), *drawn)
        views = (drawn[0], *others) if self._shared else others
        return loss + self.augmentation.consistency * disagreement([network(view) for view in views])

    def after(self, *drawn: Tensor) -> None:
        """What follows when the weights have moved."""
        self.method.after(self.network, *drawn[self._others :])


class _Remembering:
    """A network that answers the same batch once: methods ask about the first view, and so does the consistency."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._answers: list[tuple[Tensor, Tensor]] = []

    def __call__(self, images: Tensor) -> Tensor:
        for asked, answer in self._answers:
            if asked is images:
                return answer
        self._answers.append((images, self._network(images)))
        return self._answers[-1][1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)
