"""What is minimised: the loss of a method, seen through an augmentation where there is one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from xcnorm.methods.augmentation import Augmentation
from xcnorm.methods.erm import ERM
from xcnorm.methods.method import Method, Numbers
from xcnorm.methods.through import Through
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

    Attributes:
        method: What learns: ERM in the place of an augmentation.
        companion: What learns beside the network.
    """

    def __init__(self, method: Method, augmentation: Augmentation | None, network: Network, training: Training) -> None:
        super().__init__()
        self.method = ERM() if isinstance(method, Augmentation) else method
        self.network = network
        self.method.begin(training)
        companion = self.method.companion()
        self.companion = None if companion is None else companion.to(training.device)
        self._learner: Method = self.method
        for each in (method, augmentation):
            if isinstance(each, Augmentation):
                each.begin(training)
                self._learner = Through(self._learner, each)

    def draw(self, images: Tensor, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Everything random about a step: a batch to what `forward` takes."""
        return self._learner.draw(images, labels, generator)

    @property
    def foreseeable(self) -> bool:
        """Whether steps can be drawn before the ones before them are done."""
        return self._learner.foreseeable

    def foresee(self, shape: torch.Size, generator: torch.Generator) -> list[Numbers]:
        """The part of `draw` that knows no image yet."""
        return self._learner.foresee(shape, generator)

    def draw_foreseen(
        self, images: Tensor, labels: Tensor, foreseen: Sequence[Sequence[Numbers]]
    ) -> tuple[Tensor, ...]:
        """The rest of it for several batches.

        Args:
            images: Of one batch after the other.
            labels: The same.
            foreseen: What `foresee` gave for each batch.
        """
        joined = (tuple(map(torch.cat, zip(*numbers, strict=True))) for numbers in zip(*foreseen, strict=True))
        return self._learner.draw_foreseen(images, labels, joined)

    def forward(self, *drawn: Tensor) -> Tensor:
        """The loss."""
        return self._learner.loss(self.network, *drawn)

    def after(self, *drawn: Tensor) -> None:
        """What follows when the weights have moved."""
        self._learner.after(self.network, *drawn)
