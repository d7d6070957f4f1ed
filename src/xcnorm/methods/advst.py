"""AdvST: chains of standard augmentations whose numbers are tuned against the network (Zheng et al., AAAI 2024).

After every pass over the images a new set is made from the source: each batch gets a random chain of transformations,
and each image numbers of its own, which gradient ascent makes hard for the network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xcnorm.errors import UserError
from xcnorm.methods.contrasts import class_contrast
from xcnorm.methods.method import Method, register_method
from xcnorm.methods.semantics import chains, transformations
from xcnorm.methods.training import Training
from xcnorm.models import Network
from xcnorm.ops.spec import full_precision

_PROJECTION = 128  # the length of the vectors that are contrasted
_SMOOTHING, _TINY = 0.99, 1e-8  # of RMSprop


@register_method("advst")
@dataclass
class AdvST(Method):
    """Adversarial learning with semantics transformations.

    Attributes:
        longest: The largest number of transformations in a chain.
        rate: The step of the ascent, by RMSprop.
        ascent_steps: How often numbers move, at most.
        tolerance: The ascent ends when its objective changes by no more than this in a step.
        gamma: The weight in the ascent of the mean squared distance between embeddings and their originals'.
        eta: The weight in the ascent of the entropy of the answers; above 0 it is AdvST-ME.
        batch: Images that share a chain.
        pool: How many sets are kept beside the source; a new one takes the place of the oldest. 0 makes none.
        size: Images of a set, drawn from the source's; 0 for all of them.
        gap: After how many steps a new set is made; 0 for each pass over all images.
        keep_source: Whether the images themselves stay among those that are learned. The published program overwrites
            them with the first set that its pool has no place for.
        hole: The side of the squares that are cut out, as a share of the image's; 0.5 in the published program.
        contrast: The weight of the contrastive loss over classes.
        temperature: Of the contrastive loss.
        entropy: The weight of the entropy of the answers, which is to be large in training, too.
    """

    longest: int = 3
    rate: float = 0.2
    ascent_steps: int = 20
    tolerance: float = 0.1
    gamma: float = 100.0
    eta: float = 0.0
    batch: int = 256
    pool: int = 5
    size: int = 0
    gap: int = 0
    keep_source: bool = True
    hole: float = 0.2
    contrast: float = 1.0
    temperature: float = 0.07
    entropy: float = 10.0

    capturable = True
    scalable = False
    distributed = "its contrastive loss compares all images of a batch with one another"
    neutral = {"pool": 0, "contrast": 0.0, "entropy": 0.0}  # noqa: RUF012 - a constant of the class

    def validate(self) -> None:
        """Look at the values of the settings."""
        if not 1 <= self.longest <= 4:
            raise UserError(f"longest of method advst must be from 1 to 4, not {self.longest!r}")
        for name in ("ascent_steps", "batch"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} of method advst must be 1 or more, not {getattr(self, name)!r}")
        for name in ("tolerance", "gamma", "eta", "pool", "size", "gap", "contrast", "entropy"):
            if getattr(self, name) < 0:
                raise UserError(f"{name} of method advst must be 0 or more, not {getattr(self, name)!r}")
        for name in ("rate", "temperature"):
            if getattr(self, name) <= 0:
                raise UserError(f"{name} of method advst must be above 0, not {getattr(self, name)!r}")
        if not 0 < self.hole <= 1:
            raise UserError(f"hole of method advst must be above 0 and at most 1, not {self.hole!r}")

    def begin(self, training: Training) -> None:
        """Called once before training, with the network on its device."""
        super().begin(training)
        self._transformations = transformations(self.hole)
        self._chains = chains(tuple(self._transformations), self.longest)
        self._projection = nn.Linear(training.network.embedding_size, _PROJECTION) if self.contrast else None
        source = training.images.source_size
        self._size = min(self.size or source, source)
        self._due = self._wait  # the number of steps done when the next set is made
        self._left = torch.empty(0, dtype=torch.int64)  # what is still to be transformed for the one that has begun

    def companion(self) -> nn.Module | None:
        """The layer whose output is contrasted."""
        return self._projection

    def pending(self) -> bool:
        """Whether a pass over the images is done."""
        return self.pool > 0 and self.training.step >= self._due

    def work(self, generator: torch.Generator) -> None:
        """Make some of the images of a set."""
        known = self.training.images
        if not len(self._left):
            self._left = torch.randperm(known.source_size, generator=generator)[: self._size]
        index, self._left = self._left[: self.batch], self._left[self.batch :]
        images, labels = known.take(index)
        length = int(torch.randint(self.longest, (), generator=generator))
        chain = self._chains[length][int(torch.randint(len(self._chains[length]), (), generator=generator))]
        numbers = self.draw_numbers(chain, len(images), generator).to(images.device)
        known.add(self.ascend(images, labels, chain, numbers), labels, as_bytes=False)
        if not len(self._left):
            self._forget()
            self._due += self._wait

    def draw_numbers(self, chain: Sequence[str], count: int, generator: torch.Generator) -> Tensor:
        """The numbers that a chain begins with, ``(count, P)``, evenly from the ranges of its transformations."""
        ranges = [each for name in chain for each in self._transformations[name].ranges]
        low, high = torch.tensor(ranges).view(-1, 2).unbind(1)
        return low + (high - low) * torch.rand(count, len(ranges), generator=generator)

    def ascend(self, images: Tensor, labels: Tensor, chain: Sequence[str], numbers: Tensor) -> Tensor:
        """Images through a chain, with numbers that are hard for the network.

        Args:
            images: ``(N, C, H, W)``, as the network sees them; and so is what comes back.
            labels: ``(N,)``.
            chain: Names of transformations.
            numbers: What their numbers begin with, ``(N, P)``.
        """
        network = self.training.network
        network.eval()  # nothing of it changes: its statistics are those of training
        with torch.no_grad():
            original = network.features(images)
        numbers = numbers.clone().requires_grad_()
        squares, before = torch.zeros_like(numbers), 0.0
        for _ in range(self.ascent_steps):
            inputs = self.transformed(images, chain, numbers)
            if not inputs.requires_grad:
                break  # nothing in this chain can be learned
            gain = self.gain(network, inputs, labels, original)
            (slope,) = torch.autograd.grad(gain, numbers)
            with torch.no_grad():
                squares.mul_(_SMOOTHING).addcmul_(slope, slope, value=1 - _SMOOTHING)
                numbers.addcdiv_(slope, squares.sqrt().add_(_TINY), value=self.rate)
            now = gain.item()
            if abs(now - before) <= self.tolerance:
                break
            before = now
        network.train()
        with torch.no_grad():
            return self.transformed(images, chain, numbers)

    def gain(self, network: Network, inputs: Tensor, labels: Tensor, original: Tensor) -> Tensor:
        """What the numbers are to raise: a mean over images.

        Args:
            network: As in a test.
            inputs: Transformed images, as the network sees them.
            labels: ``(N,)``.
            original: Embeddings of the images that they were made from.
        """
        embedding = network.features(inputs)
        logits = network.classifier(embedding)
        gain = F.cross_entropy(logits, labels) - self.gamma * F.mse_loss(embedding, original)
        return gain + self.eta * _entropy(logits) if self.eta else gain

    def transformed(self, images: Tensor, chain: Sequence[str], numbers: Tensor) -> Tensor:
        """Images through a chain; both as the network sees them."""
        with full_precision(images.device):
            values = self.training.images.prepare.undo(images)
            rest = numbers
            for name in chain:
                transformation = self._transformations[name]
                own, rest = rest.tensor_split([len(transformation.ranges)], 1)
                values = transformation.apply(values, own)
            # The way back is linear: what a difference of inputs is for a difference of values.
            black = self.training.images.prepare(torch.zeros_like(values[:1]))
            white = self.training.images.prepare(torch.ones_like(values[:1]))
            return black + (white - black) * values

    def draw(self, images: Tensor, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """The batch; without the source, and as soon as the pool is full, one of made images in its place."""
        known = self.training.images
        made = len(known) - known.source_size
        if self.keep_source or made < self._size * self._places:
            return images, labels
        index = known.source_size + torch.randint(made, (len(images),), generator=generator)
        return known.take(index, self.training.changes)

    def loss(self, model: Network, *drawn: Tensor) -> Tensor:
        """Cross-entropy, the contrastive loss, and entropy, of which there is to be much."""
        if self._projection is None and not self.entropy:
            return super().loss(model, *drawn)
        images, labels = drawn
        embedding = model.features(images)
        logits = model.classifier(embedding)
        loss = F.cross_entropy(logits, labels)
        if self._projection is not None:
            vectors = self._projection(embedding)
            with full_precision(images.device):
                dtype = torch.promote_types(vectors.dtype, torch.float32)
                loss = loss + self.contrast * class_contrast(vectors.to(dtype), labels, self.temperature)
        return loss - self.entropy * _entropy(logits) if self.entropy else loss

    def state_dict(self) -> dict[str, Any]:
        """When the next set is due, and what is left of the one that has begun."""
        return {"due": self._due, "left": self._left}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        self._due, self._left = state["due"], state["left"].cpu()

    @property
    def _places(self) -> int:
        """For sets that were made: the published program's pool has one for the source, too."""
        return self.pool if self.keep_source else self.pool + 1

    @property
    def _wait(self) -> int:
        """Steps from one set to the next."""
        return self.gap or len(self.training.images) // self.training.batch

    def _forget(self) -> None:
        """Drop the oldest set, if there are more than places for them."""
        known = self.training.images
        if len(known) - known.source_size > self._size * self._places:
            added = known.state_dict()["added"]
            with torch.autocast(self.training.device.type, enabled=False):
                images, labels = (torch.cat(part)[self._size :] for part in zip(*added, strict=True))
            known.load_state_dict({"added": [[images, labels]]})


def _entropy(logits: Tensor) -> Tensor:
    """Of the answers, averaged over images."""
    logs = logits.log_softmax(1)
    return -(logs.exp() * logs).sum(1).mean()
