"""ALT: a small network that changes images is drawn anew for each batch and trained against the network for ten steps.

Gokhale et al., Improving Diversity with Adversarially Learned Transformations for Domain Generalization, WACV 2023.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from xcnorm.errors import UserError
from xcnorm.methods.augmentation import disagreement, find_augmentation
from xcnorm.methods.inner_adam import InnerAdam
from xcnorm.methods.method import Method, register_method
from xcnorm.methods.training import Training
from xcnorm.models import Network
from xcnorm.ops.spec import full_precision

_KERNEL = 3
_LEAK = 0.2


@register_method("alt")
@dataclass
class ALT(Method):
    """Adversarially learned transformations. The network learns the images, and to answer alike to what became of them.

    Attributes:
        consistency: The share of the consistency loss; the cross-entropy of the images has the rest. At 0 nothing is
            left of the method.
        diversity: An augmentation whose view is a third one, or ``"none"``.
        warmup: The share of the steps, at the beginning, that are ERM.
        rate: The learning rate of the adversary, by Adam.
        ascent_steps: How often the adversary moves for a batch.
        smoothness: The weight of the total variation, which the adversary is to keep low.
        depth: The adversary's convolutions before the last one.
        width: Their channels.
        adversary: ``"paper"``: all of it is new for each batch, and its images are cut to the range of images.
            ``"released"``: its biases and Adam's memory stay, and its images are cut to 0.0001 to 1 in the units of
            the network's input, as in the published program.
    """

    consistency: float = 0.75
    diversity: str = "randconv"
    warmup: float = 0.125
    rate: float = 5e-6
    ascent_steps: int = 10
    smoothness: float = 1.0
    depth: int = 4
    width: int = 18
    adversary: str = "paper"

    capturable = True
    scalable = False
    cost = 10.0
    distributed = "its adversary learns from the whole batch"
    neutral = {"consistency": 0.0}  # noqa: RUF012 - a constant of the class

    def validate(self) -> None:
        """Look at the values of the settings."""
        for name in ("consistency", "warmup"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"{name} of method alt is a share from 0 to 1, not {getattr(self, name)!r}")
        for name in ("depth", "width"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} of method alt must be 1 or more, not {getattr(self, name)!r}")
        for name in ("rate", "ascent_steps", "smoothness"):
            if getattr(self, name) < 0:
                raise UserError(f"{name} of method alt must be 0 or more, not {getattr(self, name)!r}")
        if self.adversary not in ("paper", "released"):
            raise UserError(f"adversary of method alt must be 'paper' or 'released', not {self.adversary!r}")
        if self.diversity != "none":
            find_augmentation(self.diversity)

    def begin(self, training: Training) -> None:
        """Make room for the adversary."""
        super().begin(training)
        prepare, device = training.images.prepare, training.device
        (image,), _ = training.images.take(torch.zeros(1, dtype=torch.int64))
        channels = [len(image), *[self.width] * self.depth, len(image)]
        self._shapes = [(after, before, _KERNEL, _KERNEL) for before, after in pairwise(channels)]
        weights = [torch.zeros(shape, device=device) for shape in self._shapes]
        biases = [torch.zeros(shape[0], device=device) for shape in self._shapes]
        bounds = torch.cat([torch.full((shape[0],), _inputs(shape) ** -0.5) for shape in self._shapes])
        self._bounds, self._sizes = bounds, [shape[0] for shape in self._shapes]
        self._weights, self._biases = weights, biases
        self._ascent = InnerAdam([*weights, *biases], self.rate)
        if self.adversary == "released":
            self._set(self._biases, self._draw_biases(None).to(device))
            self._least = torch.full((1, 1, 1), 1e-4, device=device)
            self._most = torch.ones(1, 1, 1, device=device)
        else:
            self._least, self._most = (
                prepare(torch.full((1, len(image), 1, 1), end, device=device))[0] for end in (0.0, 1.0)
            )
        self._view = None if self.diversity == "none" else find_augmentation(self.diversity).make({})

    def draw(self, images: Tensor, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """The batch, and after the warm-up the adversary's first weights and the third view."""
        if not self.consistency or self.training.step < self.warmup * self.training.steps:
            return images, labels
        kernels = [torch.randn(shape, generator=generator) * (2 / _inputs(shape)) ** 0.5 for shape in self._shapes]
        numbers = torch.cat([*(kernel.flatten() for kernel in kernels), self._draw_biases(generator)])
        views = [] if self._view is None else self._view.views_of(images, generator)[:1]
        return images, labels, numbers.to(images.device), *views

    def loss(self, model: Network, *drawn: Tensor) -> Tensor:
        """Cross-entropy of the images, and the divergence of the answers to all views from their mean."""
        images, labels, *further = drawn
        if not further:
            return super().loss(model, images, labels)
        numbers, *views = further
        views.append(self.changed(model, images, labels, numbers))
        answers = [model(images), *(model(view) for view in views)]
        return (1 - self.consistency) * F.cross_entropy(answers[0], labels) + self.consistency * disagreement(answers)

    def changed(self, model: Network, images: Tensor, labels: Tensor, numbers: Tensor) -> Tensor:
        """What the adversary makes of images when it has learned; the network is as in a test, and does not change.

        Args:
            model: The network in training mode.
            images: ``(N, C, H, W)``.
            labels: ``(N,)``.
            numbers: From `draw`: the adversary's first kernels and biases.
        """
        kernels, biases = numbers.split([len(numbers) - sum(self._sizes), sum(self._sizes)])
        self._set(self._weights, kernels)
        if self.adversary == "paper":
            self._set(self._biases, biases)
            self._ascent.reset()
        own = [*self._weights, *self._biases]
        model.eval()
        for _ in range(self.ascent_steps):
            learning = [parameter.detach().requires_grad_() for parameter in own]
            made = self.transform(images, learning)
            loss = self.smoothness * total_variation(made) - F.cross_entropy(model(made), labels)
            self._ascent.step(torch.autograd.grad(loss, learning))
        model.train()
        return self.transform(images, own)

    def transform(self, images: Tensor, parameters: Sequence[Tensor]) -> Tensor:
        """Images through the adversary: convolutions that keep their size, with leaky ReLUs between them.

        Args:
            images: ``(N, C, H, W)``, as the network sees them; and so is what comes back.
            parameters: Its kernels, then its biases.
        """
        kernels, biases = parameters[: self.depth + 1], parameters[self.depth + 1 :]
        with full_precision(images.device):
            inner = images
            for place, (kernel, bias) in enumerate(zip(kernels, biases, strict=True)):
                inner = F.leaky_relu(inner, _LEAK) if place else inner
                inner = F.conv2d(inner, kernel, bias, padding=_KERNEL // 2)
            return inner.maximum(self._least).minimum(self._most)

    def state_dict(self) -> dict[str, Any]:
        """What outlives a batch: in the published program biases, and Adam's memory."""
        if self.adversary == "paper":
            return {}
        return {"biases": self._biases, "weights": self._weights, "ascent": self._ascent.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        if self.adversary == "paper":
            return
        for name, own in (("biases", self._biases), ("weights", self._weights)):
            self._set(own, torch.cat([saved.flatten() for saved in state[name]]))
        self._ascent.load_state_dict(state["ascent"])

    def _draw_biases(self, generator: torch.Generator | None) -> Tensor:
        """As torch draws those of a new convolution."""
        return (2 * torch.rand(len(self._bounds), generator=generator) - 1) * self._bounds

    def _set(self, own: Sequence[Tensor], numbers: Tensor) -> None:
        """Put numbers into tensors, in the same memory."""
        with torch.no_grad():
            for tensor, part in zip(own, numbers.split([each.numel() for each in own]), strict=True):
                tensor.copy_(part.view(tensor.shape))


def total_variation(images: Tensor) -> Tensor:
    """Twice the sum of the mean squared differences of neighbours above and beside one another."""
    down, across = images.diff(dim=2), images.diff(dim=3)
    return 2 * (down.square().mean() + across.square().mean())


def _inputs(shape: tuple[int, ...]) -> int:
    return shape[1] * shape[2] * shape[3]
