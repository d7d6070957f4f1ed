"""L2D: a network and a generator of styles that learn against one another (Wang et al., ICCV 2021).

The generator looks for styles in which the network's answer to an image depends little on what it answers to the image
itself; the network learns to give both the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xcnorm.errors import UserError
from xcnorm.methods.divergences import (
    classwise_discrepancy,
    dependence_bound,
    gaussian_surprise,
    supervised_contrast,
)
from xcnorm.methods.method import Method, register_method
from xcnorm.methods.styles import Styles
from xcnorm.methods.training import Training
from xcnorm.models import Network
from xcnorm.ops.spec import full_precision


class GaussianNetwork(Network):
    """A network whose embedding is normally distributed: two dense layers between trunk and classifier.

    `features` are the mean, also in training: whoever wants noise draws it, and adds it to what `gaussian` says.

    Args:
        network: Gives its trunk, and its sizes.

    Attributes:
        mean: From the trunk's output to the mean.
        log_variance: From the trunk's output to the logarithm of the variance, which is never negative.
    """

    def __init__(self, network: Network) -> None:
        size = network.embedding_size
        super().__init__(network.trunk, size, network.classifier.out_features)
        self.mean = nn.Sequential(nn.Linear(size, size), nn.LeakyReLU())
        self.log_variance = nn.Sequential(nn.Linear(size, size), nn.ReLU())

    def features(self, input: Tensor) -> Tensor:
        """Images ``(N, C, H, W)`` to the means of their embeddings ``(N, embedding_size)``."""
        mean: Tensor = self.mean(self.trunk(input))
        return mean

    def gaussian(self, input: Tensor) -> tuple[Tensor, Tensor]:
        """Images to mean and log-variance of their embeddings, in float32 or better whatever autocast says."""
        embedding = self.trunk(input)
        mean, log_variance = self.mean(embedding), self.log_variance(embedding)
        dtype = torch.promote_types(mean.dtype, torch.float32)
        return mean.to(dtype), log_variance.to(dtype)


@register_method("l2d")
@dataclass
class L2D(Method):
    """Learning to diversify. Each step has two stages: the network moves, then the generator.

    Attributes:
        mix: The share of the generated image in what the network sees of it; the rest is the image. At 0 nothing is
            generated, and nothing is left of the method.
        kernels: The kernel sizes of the generator's branches.
        dropout: The probability that a value of the generator's colour branch is left out.
        rate: The learning rate of the generator.
        spread: The noise of an embedding in training, in its standard deviations.
        contrast: The weight of the contrastive loss over images and generated ones.
        temperature: Of the contrastive loss.
        likelihood: The weight of predicting the embedding of a generated image from the image.
        dependence: The weight in the generator's loss of how well that succeeds.
    """

    mix: float = 1.0
    kernels: tuple[int, ...] = (3, 5)
    dropout: float = 0.5
    rate: float = 0.005
    spread: float = 0.2
    contrast: float = 1.0
    temperature: float = 0.07
    likelihood: float = 1.0
    dependence: float = 0.1

    capturable = True
    scalable = False
    cost = 3.0
    distributed = "its losses compare all images of a batch with one another"
    neutral = {"mix": 0.0}  # noqa: RUF012 - a constant of the class

    def validate(self) -> None:
        """Look at the values of the settings."""
        if not 0 <= self.mix <= 1:
            raise UserError(f"mix of method l2d is a share from 0 to 1, not {self.mix!r}")
        if not self.kernels or any(type(size) is not int or size < 1 for size in self.kernels):
            raise UserError(f"kernels of method l2d must be whole numbers from 1, not {self.kernels!r}")
        if not 0 <= self.dropout < 1:
            raise UserError(f"dropout of method l2d is a probability below 1, not {self.dropout!r}")
        if self.temperature <= 0:
            raise UserError(f"temperature of method l2d must be more than 0, not {self.temperature!r}")
        for name in ("rate", "spread", "contrast", "likelihood", "dependence"):
            if getattr(self, name) < 0:
                raise UserError(f"{name} of method l2d must be 0 or more, not {getattr(self, name)!r}")

    def adapt(self, network: Network) -> Network:
        """The network with a normally distributed embedding."""
        return GaussianNetwork(network) if self.mix else network

    def begin(self, training: Training) -> None:
        """Make the generator."""
        super().begin(training)
        if not self.mix:
            return
        images, _ = training.images.take(torch.zeros(1, dtype=torch.long))
        height, width = images.shape[2:]
        if max(self.kernels) >= min(height, width):
            raise UserError(
                f"kernels of method l2d must be smaller than the images of {height}x{width}, not {self.kernels!r}"
            )
        self.styles = Styles(images.shape[1:], self.kernels, self.dropout, training.images.prepare).to(training.device)

    def draw(self, images: Tensor, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """The batch; a style for it; the noise of the embeddings of both, for both stages; an order for the bound."""
        if not self.mix:
            return images, labels
        style, kept = self.styles.draw(images, generator)
        noise = torch.randn(2 * len(images), self.training.network.embedding_size, generator=generator)
        order = torch.randperm(len(images), generator=generator)
        return images, labels, style, kept, noise.to(images.device), order.to(images.device)

    def loss(self, model: Network, *drawn: Tensor) -> Tensor:
        """The first stage: what the network minimises."""
        if not self.mix:
            return super().loss(model, *drawn)
        images, labels, style, kept, noise, _ = drawn
        with torch.no_grad():
            styled = self.styled(images, style, kept)
        means, log_variances = cast(GaussianNetwork, model).gaussian(torch.cat([styled, images]))
        embeddings = self.noisy(means, log_variances, noise)
        loss = F.cross_entropy(model.classifier(embeddings), torch.cat([labels, labels]))
        count = len(labels)
        with full_precision(images.device):
            of_styled, of_images = embeddings.split(count)
            loss = loss + self.contrast * supervised_contrast(of_styled, of_images, labels, self.temperature)
            return loss + self.likelihood * gaussian_surprise(means[count:], log_variances[count:], of_styled)

    def after(self, model: Network, *drawn: Tensor) -> None:
        """The second stage: a step of the generator. The network is as in a test, and does not change."""
        if not self.mix:
            return
        images, labels, _, _, noise, order = drawn
        network, count = cast(GaussianNetwork, model), len(labels)
        model.eval()
        with torch.no_grad():
            mean, log_variance = network.gaussian(images)
            of_images = self.noisy(mean, log_variance, noise[count:])
        of_styled = self.noisy(*network.gaussian(self.styled(images, self.styles.fixed)), noise[:count])
        model.train()
        with full_precision(images.device):
            loss = classwise_discrepancy(of_styled, of_images, labels)
            loss = loss + self.dependence * dependence_bound(mean, log_variance, of_styled, order)
        parameters = list(self.styles.parameters())
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.sub_(gradient, alpha=self.rate)

    def styled(self, images: Tensor, style: Tensor, kept: Tensor | None = None) -> Tensor:
        """What the network sees of images in a style."""
        with full_precision(images.device):
            return self.mix * self.styles(images, style, kept) + (1 - self.mix) * images

    def noisy(self, mean: Tensor, log_variance: Tensor, noise: Tensor) -> Tensor:
        """Embeddings as the classifier sees them in training."""
        return mean + self.spread * (log_variance / 2).exp() * noise

    def state_dict(self) -> dict[str, Any]:
        """The generator, and the style in which it learns."""
        return {"styles": self.styles.state_dict()} if self.mix else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        if self.mix:
            self.styles.load_state_dict(state["styles"])
