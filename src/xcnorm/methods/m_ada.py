"""M-ADA: domains further and further away, and a network that is asked to do well on them after a step on the source.

Qiao et al., Learning to Learn Single Domain Generalization, CVPR 2020.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from xcnorm.errors import UserError
from xcnorm.methods.ascent import Ascent
from xcnorm.methods.autoencoder import WassersteinAutoencoder
from xcnorm.methods.method import register_method
from xcnorm.methods.training import Training
from xcnorm.models import Network

_PIECE = 10  # batches that the auto-encoder learns from at a time


@register_method("m_ada")
@dataclass
class MADA(Ascent):
    """Meta-learning across adversarial domains, which an auto-encoder of the domain before drives away from it.

    Each phase first trains the auto-encoder anew, on the domain that was added last, or at first on the source. Then it
    perturbs images, which gain by the distance between their reconstruction and their original's. A step learns from a
    batch of the source, and from a batch of added images seen by the weights that a gradient step on the first
    would lead to; gradients are those of both, through that step.

    Attributes:
        ascent_steps: How often an image moves.
        pool: Perturb so many images in the first phase; 0 for the whole source. Later phases have fewer.
        beta: The weight of the mean squared distance between reconstructions.
        autoencoder_epochs: How often the auto-encoder sees each image of a domain.
    """

    ascent_steps: int = 25
    beta: float = 2000.0
    autoencoder_epochs: int = 20

    cost = 4.0
    learns_from_added = False
    distributed = "its second-order step needs the gradient of the whole batch in the middle of a step"

    def validate(self) -> None:
        """Look at the values of the settings."""
        super().validate()
        if self.beta < 0:
            raise UserError(f"beta of method m_ada must be 0 or more, not {self.beta!r}")
        if self.autoencoder_epochs < 1:
            raise UserError(f"autoencoder_epochs of method m_ada must be 1 or more, not {self.autoencoder_epochs!r}")

    def begin(self, training: Training) -> None:
        """Called once before training, with the network on its device."""
        super().begin(training)
        if self.phases and not self._batches(self.phases - 1):
            raise UserError(
                f"{self.phases} phases of method m_ada need {(self.phases + 1) * self.batch} images, which "
                "the training images, or its pool, have not; make its batch or its phases smaller"
            )
        self._autoencoder = WassersteinAutoencoder(self._shape.numel()).to(training.device)
        self._epochs = 0  # done, over all phases
        self._epoch = torch.empty(0, dtype=torch.int64)  # what is left of the one that has begun
        self._newest = 0  # where the domain begins that was added last

    def work(self, generator: torch.Generator) -> None:
        """Train the auto-encoder a little, or if that is done perturb some images."""
        if self._epochs < self.autoencoder_epochs * (self._phase + 1):
            self._learn_domain(generator)
        else:
            super().work(generator)

    def choose(self, generator: torch.Generator) -> Tensor:
        """Which images a phase perturbs: the source's, and in later phases a growing share of those added before."""
        known = self.training.images
        self._newest = len(known)
        batches, share = self._batches(self._phase), self.batch // (self._phase + 1)
        own = torch.randperm(known.source_size, generator=generator)[: batches * share]
        added = torch.randperm(len(known) - known.source_size, generator=generator)[: batches * (self.batch - share)]
        return torch.cat([own, known.source_size + added])

    def bonus(self, inputs: Tensor, images: Tensor, logits: Tensor) -> Tensor:
        """How far reconstructions have moved."""
        undo, reconstruct = self.training.images.prepare.undo, self._autoencoder
        moved = F.mse_loss(reconstruct(undo(inputs)), reconstruct(undo(images)).detach(), reduction="sum")
        return self.beta * moved / inputs[0].numel()

    def draw(self, images: Tensor, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """The batch, and when there are any, as many added images, and the rate of the step between the two."""
        known = self.training.images
        if not (added := len(known) - known.source_size):
            return images, labels
        index = known.source_size + torch.randint(added, (len(images),), generator=generator)
        rate = torch.full((), self.training.rate, device=images.device)
        return images, labels, *known.take(index, self.training.changes), rate

    def loss(self, model: Network, *drawn: Tensor) -> Tensor:
        """The mean cross-entropy of the source and of added images, the latter after a step on the former."""
        images, labels, *further = drawn
        if self.phases and hasattr(model, "_orig_mod"):
            raise UserError("method m_ada has second derivatives, which torch.compile has not; set run.compile=false")
        own = F.cross_entropy(model(images), labels)
        if not further:
            return own
        others, other_labels, rate = further
        network = self.training.network
        weights = dict(network.named_parameters())
        slopes = torch.autograd.grad(own, list(weights.values()), create_graph=True)
        stepped = {name: weights[name] - rate * slope for name, slope in zip(weights, slopes, strict=True)}
        # Statistics of batches, which are no weights, are the network's own: they follow both batches.
        logits = functional_call(network, stepped, (others,))
        return (own + F.cross_entropy(logits, other_labels)) / 2

    def state_dict(self) -> dict[str, Any]:
        """Where it is, and the auto-encoder."""
        return super().state_dict() | {
            "epochs": self._epochs,
            "epoch": self._epoch,
            "newest": self._newest,
            "autoencoder": self._autoencoder.whole_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        super().load_state_dict(state)
        self._epochs, self._epoch, self._newest = state["epochs"], state["epoch"].cpu(), state["newest"]
        self._autoencoder.load_whole_state(state["autoencoder"])

    def _batches(self, phase: int) -> int:
        """How many batches a phase perturbs: fewer and fewer."""
        own = self.training.images.source_size
        return (min(self.pool or own, own) // self.batch - 1) // (phase + 1)

    def _learn_domain(self, generator: torch.Generator) -> None:
        known = self.training.images
        if not len(self._epoch):
            if self._epochs == self.autoencoder_epochs * self._phase:
                self._autoencoder.reset(generator)
            size = len(known) - self._newest
            order = torch.randperm(size, generator=generator)[: size - size % self.batch]
            self._epoch = self._newest + order
        index, self._epoch = self._epoch[: _PIECE * self.batch], self._epoch[_PIECE * self.batch :]
        # A cross-entropy wants targets from 0 to 1, which perturbed images have left.
        images = known.prepare.undo(known.take(index)[0]).clamp(0, 1)
        prior = self._autoencoder.draw_prior(len(index), generator)
        for part, codes in zip(images.split(self.batch), prior.split(self.batch), strict=True):
            self._autoencoder.fit(part, codes)
        self._epochs += not len(self._epoch)
