"""Gradient ascent: images made hard for the network and added to those it has, for ADA, ME-ADA and M-ADA."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from xcnorm.errors import UserError
from xcnorm.methods.method import Method
from xcnorm.methods.training import Training
from xcnorm.models import Network

_PIXELS = 1000 * 32 * 32  # perturbed at a time on a GPU: enough to keep it busy, few enough for its memory


@dataclass
class Ascent(Method):
    """Learn the images there are, and now and then add some that are hard, but mean the same to the network.

    An image moves up the gradient of its cross-entropy, minus `gamma` times how far its embedding has moved, plus the
    `bonus` of a subclass. It does not see the images beside it, so that any number of them can be perturbed together.

    Attributes:
        gamma: The weight of the mean squared distance between an image's embedding and its original's.
        ascent_steps: How often an image moves.
        step_size: How far, along a gradient that is a mean over `batch` images.
        batch: The images of such a mean in the publication: an image moves along its own gradient by
            ``step_size / batch``. Images that do not fill a batch are left out of a phase.
        phases: How often images are added.
        gap: Phase k, from 1, comes before step ``k * gap``, from 1.
        pool: Perturb so many images in a phase; 0 for all that there are when it begins.
        clamp: Whether added images are cut to the range of an image and kept as bytes, or kept as they are, in half
            precision.
    """

    gamma: float = 1.0
    ascent_steps: int = 15
    step_size: float = 1.0
    batch: int = 32
    phases: int = 3
    gap: int = 100
    pool: int = 0
    clamp: bool = False

    capturable = True
    scalable = False
    neutral = {"phases": 0}  # noqa: RUF012 - a constant of the class

    def validate(self) -> None:
        """Look at the values of the settings."""
        for name in ("ascent_steps", "batch", "gap"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} of method {self.name} must be 1 or more, not {getattr(self, name)!r}")
        for name in ("gamma", "phases", "pool"):
            if getattr(self, name) < 0:
                raise UserError(f"{name} of method {self.name} must be 0 or more, not {getattr(self, name)!r}")
        if self.step_size <= 0:
            raise UserError(f"step_size of method {self.name} must be above 0, not {self.step_size!r}")
        if 0 < self.pool < self.batch:
            raise UserError(
                f"pool of method {self.name} must fill a batch of {self.batch}, or be 0 for all images, "
                f"not {self.pool!r}"
            )

    def begin(self, training: Training) -> None:
        """Called once before training, with the network on its device."""
        super().begin(training)
        if self.phases and training.images.source_size < self.batch:
            raise UserError(
                f"{training.images.source_size} training images do not fill a batch of method {self.name}; make its "
                f"batch, {self.batch}, smaller"
            )
        if self.phases * self.gap > training.steps:
            raise UserError(
                f"{self.phases} phases of method {self.name}, {self.gap} steps apart, do not fit into {training.steps} "
                "steps; make its phases or its gap smaller, or train longer"
            )
        (image,), _ = training.images.take(torch.zeros(1, dtype=torch.int64))
        self._shape = image.shape
        self._together = self.batch  # images perturbed at a time: on a CPU as many as in the publication
        if training.device.type == "cuda":
            self._together = max(self.batch, _PIXELS // image[0].numel())
        self._phase = 0  # phases done
        self._left = torch.empty(0, dtype=torch.int64)  # what is still to be perturbed in the one that has begun

    def pending(self) -> bool:
        """Whether a phase is due before the next step."""
        return self._phase < self.phases and self.training.step + 1 >= self.gap * (self._phase + 1)

    def work(self, generator: torch.Generator) -> None:
        """Perturb some of the images of a phase."""
        if not len(self._left):
            self._left = self.choose(generator)
        known = self.training.images
        index, self._left = self._left[: self._together], self._left[self._together :]
        images, labels = known.take(index)
        known.add(self.ascend(images, labels), labels, as_bytes=self.clamp)
        self._phase += not len(self._left)

    def choose(self, generator: torch.Generator) -> Tensor:
        """Which images a phase perturbs: whole batches, drawn from all there are."""
        known = len(self.training.images)
        count = min(self.pool or known, known)
        return torch.randperm(known, generator=generator)[: count - count % self.batch]

    def ascend(self, images: Tensor, labels: Tensor) -> Tensor:
        """Images to what gradient ascent makes of them; both as the network sees them."""
        network = self.training.network
        inputs = images.clone().requires_grad_()
        original: Tensor | None = None
        with _attacked(network):
            for _ in range(self.ascent_steps):
                embedding = network.features(inputs)
                logits = network.classifier(embedding)
                original = embedding.detach() if original is None else original
                # Sums over images: the gradient of each is that of its own terms.
                gain = F.cross_entropy(logits, labels, reduction="sum") + self.bonus(inputs, images, logits)
                moved = F.mse_loss(embedding, original, reduction="sum") / embedding.shape[1]
                (slope,) = torch.autograd.grad(gain - self.gamma * moved, inputs)
                with torch.no_grad():
                    inputs.add_(slope, alpha=self.step_size / self.batch)
        return inputs.detach()

    def bonus(self, inputs: Tensor, images: Tensor, logits: Tensor) -> Tensor | float:
        """What else an image gains by moving, summed over images.

        Args:
            inputs: ``(N, C, H, W)``, on their way.
            images: Where they come from.
            logits: ``(N, classes)``, the answers to `inputs`.
        """
        return 0.0

    def state_dict(self) -> dict[str, Any]:
        """Which phase, and what is left of it."""
        return {"phase": self._phase, "left": self._left}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        self._phase, self._left = state["phase"], state["left"].cpu()


@contextmanager
def _attacked(network: Network) -> Iterator[None]:
    """A network that nothing changes: its statistics are those of training, and only images have gradients."""
    training = network.training
    learning = [parameter for parameter in network.parameters() if parameter.requires_grad]
    network.eval()
    for parameter in learning:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)
        network.train(training)
