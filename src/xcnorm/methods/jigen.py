"""JiGen: classify images and, on the side, say how their tiles were shuffled (Carlucci et al., CVPR 2019).

Whoever puts a puzzle together must know how the parts of an object lie to one another, and that is the same in all
domains.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xcnorm.errors import UserError
from xcnorm.methods.method import Method, register_method
from xcnorm.methods.permutations import far_apart
from xcnorm.methods.training import Training
from xcnorm.models import Network

_GRID = 3  # tiles along each side
_MOST = 1000  # permutations; the largest set that was published
_LEFT_OUT = -100  # the label of an image that torch's cross-entropy passes over


@register_method("jigen")
@dataclass
class JiGen(Method):
    """Cross-entropy of the class, and of the permutation of 3x3 tiles, from one embedding.

    Attributes:
        weight: The weight of the puzzle's loss; 0.7 for ResNet-18 and 0.9 for AlexNet in the published scripts.
        ordered: The probability that an image is left in order; 0.9 and 0.7 there.
        permutations: The number of ways to shuffle; the puzzle's classes are these and "in order".
        classify: Which images count in the class loss: ``"ordered"``, those in order, as in the paper's text, or
            ``"all"``, as in the published scripts.
    """

    weight: float = 0.7
    ordered: float = 0.9
    permutations: int = 30
    classify: str = "ordered"

    capturable = True
    neutral = {"weight": 0.0, "ordered": 1.0}  # noqa: RUF012 - a constant of the class

    def validate(self) -> None:
        """Look at the values of the settings."""
        if self.weight < 0:
            raise UserError(f"weight of method jigen must be 0 or more, not {self.weight!r}")
        if not 0 <= self.ordered <= 1:
            raise UserError(f"ordered of method jigen is a probability, not {self.ordered!r}")
        if not 1 <= self.permutations <= _MOST:
            raise UserError(f"permutations of method jigen must be from 1 to {_MOST}, not {self.permutations!r}")
        if self.classify not in ("all", "ordered"):
            raise UserError(f"classify of method jigen must be 'all' or 'ordered', not {self.classify!r}")

    def begin(self, training: Training) -> None:
        """Choose the permutations; class 0 of the puzzle is the image in order."""
        super().begin(training)
        tiles = _GRID**2
        arrangements = torch.cat([torch.arange(tiles)[None], far_apart(tiles, self.permutations)])
        self._arrangements = arrangements.to(training.device)
        self._puzzler = nn.Linear(training.network.embedding_size, len(arrangements))

    def companion(self) -> nn.Module:
        """The layer that tells how tiles were shuffled."""
        return self._puzzler

    def draw(self, images: Tensor, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Which permutation each image gets; drawn for the batch of all processes, so that each knows its share."""
        batch, part = self.training.batch, self.training.part
        coins = torch.rand(batch, generator=generator)
        puzzle = torch.randint(1, self.permutations + 1, (batch,), generator=generator)
        puzzle = torch.where(coins < self.ordered, 0, puzzle)
        counted = (puzzle == 0) | (self.classify == "all")
        # A mean over those that count in the whole batch, in every process.
        share = counted.double().mean().clamp_min(1 / batch).reciprocal().float().expand(batch)
        device = images.device
        labels = labels.where(counted[part].to(device), _LEFT_OUT)
        return images, labels, puzzle[part].to(device), share[part].to(device)

    def loss(self, model: Network, *drawn: Tensor) -> Tensor:
        """The class loss, and the puzzle's.

        Args:
            model: The network.
            *drawn: Images, labels of those that count in the class loss, puzzles, and how much each that counts does.
        """
        images, labels, puzzle, share = drawn
        embedding = model.features(rearranged(images, self._arrangements[puzzle]))
        classes = F.cross_entropy(model.classifier(embedding), labels, reduction="sum") / len(labels) * share[0]
        return classes + self.weight * F.cross_entropy(self._puzzler(embedding), puzzle)


def rearranged(images: Tensor, arrangement: Tensor) -> Tensor:
    """Images with their 3x3 tiles in another order.

    A size that three does not divide is stretched to the next one that it does, and back afterwards, bilinearly; 32
    pixels by way of 33. Images that stay in order stay as they are.

    Args:
        images: ``(N, C, H, W)``.
        arrangement: ``(N, 9)``: for each place, row by row, the tile that goes there.
    """
    count, channels, height, width = images.shape
    rows, columns = (-(-size // _GRID) for size in (height, width))
    stretched = _resized(images, (_GRID * rows, _GRID * columns))
    tiles = stretched.reshape(count, channels, _GRID, rows, _GRID, columns).permute(0, 2, 4, 1, 3, 5)
    moved = tiles.flatten(1, 2).take_along_dim(arrangement.view(count, _GRID**2, 1, 1, 1), 1)
    whole = moved.unflatten(1, (_GRID, _GRID)).permute(0, 3, 1, 4, 2, 5).reshape(stretched.shape)
    still = (arrangement == torch.arange(_GRID**2, device=images.device)).all(1)
    return torch.where(still.view(count, 1, 1, 1), images, _resized(whole, (height, width)))


def _resized(images: Tensor, size: tuple[int, int]) -> Tensor:
    return images if images.shape[2:] == size else F.interpolate(images, size, mode="bilinear", align_corners=False)
