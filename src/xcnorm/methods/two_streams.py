"""Two streams: the source beside itself, for methods that align two domains and are given one.

CCSA and d-SNE were made for a source and a few labelled images of a target. Where there is no target, both of their
streams are drawn from the source; what is left is a loss that pulls classes together and pushes them apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from xcnorm.errors import UserError
from xcnorm.methods.method import Method
from xcnorm.models import Network


@dataclass
class TwoStreams(Method):
    """Cross-entropy of two batches, and a comparison of their embeddings. Subclasses say what is compared.

    Attributes:
        weight: The weight of the comparison, from 0 to 1; the cross-entropy has the rest. At 0 there is one stream.
        margin: How far apart the classes should be.
        normalise: Whether embeddings are compared by their direction alone, at length 1.
    """

    weight: float = 0.25
    margin: float = 1.0
    normalise: bool = False

    capturable = True
    cost = 2.0
    distributed = "it compares every image of a batch with every image of another"
    neutral = {"weight": 0.0}  # noqa: RUF012 - a constant of the class

    def validate(self) -> None:
        """Look at the values of the settings."""
        if not 0 <= self.weight <= 1:
            raise UserError(f"weight of method {self.name} must be from 0 to 1, not {self.weight!r}")
        if self.margin <= 0:
            raise UserError(f"margin of method {self.name} must be positive, not {self.margin!r}")

    def draw(self, images: Tensor, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """A second batch, independent of the first."""
        if not self.weight:
            return images, labels
        index = torch.randint(len(self.training.images), (len(images),), generator=generator)
        return images, labels, *self.training.images.take(index, self.training.changes)

    def loss(self, model: Network, *drawn: Tensor) -> Tensor:
        """The cross-entropy of both streams, and their comparison.

        Args:
            model: The network.
            *drawn: Images and labels of both streams, and what `comparison` takes besides.
        """
        if not self.weight:
            return super().loss(model, *drawn)
        images, labels, others, other_labels, *random = drawn
        embedding = model.features(torch.cat([images, others]))
        entropy = F.cross_entropy(model.classifier(embedding), torch.cat([labels, other_labels]))
        # At least single precision: what is compared is a difference of neighbours.
        embedding = embedding.to(torch.promote_types(embedding.dtype, torch.float32))
        if self.normalise:
            embedding = F.normalize(embedding)
        one, other = embedding.chunk(2)
        squares = (one[:, None] - other).square().sum(2)
        same = labels[:, None] == other_labels
        return (1 - self.weight) * entropy + self.weight * self.comparison(squares, same, *random)

    def comparison(self, squares: Tensor, same: Tensor, *random: Tensor) -> Tensor:
        """What is to be small besides the cross-entropy.

        Args:
            squares: ``(N, N)``: squared distances of the first stream's embeddings to the second's.
            same: ``(N, N)``: whether the classes are the same.
            *random: What `draw` made besides the streams.
        """
        raise NotImplementedError
