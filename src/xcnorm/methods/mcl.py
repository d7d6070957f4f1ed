"""MCL, meta-causal learning: infer what makes an image different, and correct its features for that.

Chen et al., Meta-causal Learning for Single Domain Generalization, CVPR 2023: simulate, analyse, reduce.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xcnorm.errors import UserError
from xcnorm.methods.factors import FACTORS, MAGNITUDES, Fields
from xcnorm.methods.method import Method, register_method
from xcnorm.methods.training import Training
from xcnorm.models import Network
from xcnorm.ops.spec import full_precision

_TOP = 255
_WEIGHER = 100  # values between the effects of a factor and its weight


class CausalNetwork(Network):
    """A network that corrects the embedding of an image for each factor, by how much that seems to have changed it.

    Args:
        network: Gives its trunk, its classifier and its sizes.
        stride: From one magnitude to the next that effects are averaged over.
        hidden: Values between the two layers of a correction.

    Attributes:
        rise: First layers of the corrections, ``(factors, embedding, hidden)``, and so on.
        weigher: From the effect of a factor on the answer to the factor's weight.
        magnitudes: Those that effects are averaged over.
        black: What the network sees of black, ``(channels, 1, 1)``.
        white: What it sees of white.
    """

    magnitudes: Tensor
    black: Tensor
    white: Tensor

    def __init__(self, network: Network, stride: int, hidden: int) -> None:
        size, classes = network.embedding_size, network.classifier.out_features
        super().__init__(network.trunk, size, classes)
        self.classifier = network.classifier
        self.rise, self.rise_bias = _layers(size, hidden)
        self.fall, self.fall_bias = _layers(hidden, size)
        self.weigher = nn.Sequential(nn.Linear(classes, _WEIGHER), nn.ReLU(), nn.Linear(_WEIGHER, 1))
        self.register_buffer("magnitudes", torch.arange(0, MAGNITUDES + 1, stride), persistent=False)
        self._fields: dict[tuple[torch.Size, torch.device], Fields] = {}  # for images of a size on a device
        self.register_buffer("black", torch.zeros(3, 1, 1))
        self.register_buffer("white", torch.ones(3, 1, 1))

    def forward(self, input: Tensor) -> Tensor:
        """Images ``(N, C, H, W)`` to logits ``(N, num_classes)``, by the corrected embedding."""
        logits: Tensor = self.classifier(self.features(input))
        return logits

    def features(self, input: Tensor) -> Tensor:
        """Images to their corrected embeddings ``(N, embedding_size)``.

        Noise among the factors is the same whenever images of a size are looked at.
        """
        embedding = self.trunk(input)
        here = (input.shape[2:], input.device)
        if here not in self._fields:
            height, width = input.shape[2:]
            fields = Fields.draw(1, height, width, torch.Generator().manual_seed(0))
            self._fields[here] = Fields(*(field.to(input.device) for field in fields))
        changed = self.counterfactuals(input, self._fields[here])
        # Factor by factor: all together take much memory.
        effects = [self.effect(self.classifier(embedding), self.classifier(self.trunk(each))) for each in changed]
        return self.corrected(embedding, torch.stack(effects, 1))

    def counterfactuals(self, images: Tensor, fields: Fields) -> Iterator[Tensor]:
        """What images were if a factor had a value; for each factor ``(N * magnitudes, C, H, W)``, image by image.

        Args:
            images: ``(N, C, H, W)``, as the network sees them.
            fields: Of noise, for each image or for all.
        """
        count, many = len(images), len(self.magnitudes)
        levels = self.levels(images).repeat_interleave(many, 0, output_size=count * many)
        repeated = Fields(*(_for_each(field, count, many) for field in fields))
        for factor in FACTORS.values():
            yield self.seen(factor.apply(levels, factor.value(self.magnitudes.repeat(count)), repeated))

    def effect(self, answers: Tensor, changed: Tensor) -> Tensor:
        """How far a factor moves the answers to images, averaged over magnitudes: ``(N, classes)``.

        Args:
            answers: ``(N, classes)``.
            changed: Those with the factor, ``(N * magnitudes, classes)``.
        """
        return (answers[:, None] - changed.view(len(answers), -1, answers.shape[1])).mean(1)

    def corrected(self, embedding: Tensor, effects: Tensor) -> Tensor:
        """Embeddings by all corrections, weighted by their effects ``(N, factors, classes)``."""
        weights = self.weigher(effects)[..., 0].softmax(1)
        each = self.corrections(embedding[:, None].expand(-1, len(FACTORS), -1))
        return (weights[..., None] * each).sum(1)

    def corrections(self, embeddings: Tensor) -> Tensor:
        """Embeddings ``(N, factors, size)``, each by the correction for its factor."""
        inner = torch.einsum("nfi,fih->nfh", embeddings, self.rise) + self.rise_bias
        corrected: Tensor = torch.einsum("nfh,fhi->nfi", inner.relu(), self.fall) + self.fall_bias
        return corrected

    def levels(self, images: Tensor) -> Tensor:
        """What the network sees to whole levels from 0 to 255."""
        with full_precision(images.device):
            return ((images.float() - self.black) / (self.white - self.black) * _TOP).round().clamp(0, _TOP)

    def seen(self, levels: Tensor) -> Tensor:
        """Levels to what the network sees."""
        with full_precision(levels.device):
            return self.black + (self.white - self.black) * (levels / _TOP)


@register_method("mcl")
@dataclass
class MCL(Method):
    """Meta-causal learning. The network that is tested asks itself what fourteen factors would change.

    Attributes:
        share: The weight of all that is not the cross-entropy of the images; at 0 nothing is left of the method.
        stride: From one magnitude of a factor, of 0 to 30, to the next that effects are averaged over.
        magnitude: That of the images by which corrections learn.
        longest: The largest number of factors that are applied to an image, one after the other.
        hidden: Values between the two layers of a correction.
        causal: The weight of what is learned from images with several factors.
        alignment: The weight of the distance of corrected embeddings from the image's own.
    """

    share: float = 1.0
    stride: int = 3
    magnitude: int = 4
    longest: int = 14
    hidden: int = 512
    causal: float = 1.0
    alignment: float = 1.0

    capturable = True
    scalable = True
    cost = 170.0
    neutral = {"share": 0.0}  # noqa: RUF012 - a constant of the class

    def validate(self) -> None:
        """Look at the values of the settings."""
        for name, most in (("stride", MAGNITUDES), ("longest", len(FACTORS))):
            if not 1 <= getattr(self, name) <= most:
                raise UserError(f"{name} of method mcl must be from 1 to {most}, not {getattr(self, name)!r}")
        if not 0 <= self.magnitude <= MAGNITUDES:
            raise UserError(f"magnitude of method mcl must be from 0 to {MAGNITUDES}, not {self.magnitude!r}")
        if self.hidden < 1:
            raise UserError(f"hidden of method mcl must be 1 or more, not {self.hidden!r}")
        for name in ("share", "causal", "alignment"):
            if getattr(self, name) < 0:
                raise UserError(f"{name} of method mcl must be 0 or more, not {getattr(self, name)!r}")

    def adapt(self, network: Network) -> Network:
        """The network with its corrections."""
        return CausalNetwork(network, self.stride, self.hidden) if self.share else network

    def begin(self, training: Training) -> None:
        """Tell the network what black and white are; its weights hold that, too."""
        super().begin(training)
        if self.share:
            network = cast(CausalNetwork, training.network)
            ends = torch.tensor([0.0, 1.0], device=training.device).view(2, 1, 1, 1).expand(2, 3, 1, 1)
            for own, end in zip((network.black, network.white), training.images.prepare(ends), strict=True):
                own.copy_(end)

    def draw(self, images: Tensor, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """The batch; with several random factors; with each factor alone; with every factor on top of the random ones.

        Random numbers are drawn for the batch of all processes, so that each knows its own.
        """
        if not self.share:
            return images, labels
        network, part, device = cast(CausalNetwork, self.training.network), self.training.part, images.device
        batch, names = self.training.batch, tuple(FACTORS)
        lengths = torch.randint(1, self.longest + 1, (batch,), generator=generator)[part]
        magnitudes = torch.randint(MAGNITUDES + 1, (batch,), generator=generator)[part]
        order = torch.randint(len(names), (batch, self.longest), generator=generator)[part]
        signs = torch.randint(2, (batch, self.longest + len(names)), generator=generator)[part] * 2.0 - 1
        height, width = images.shape[2:]
        fields = Fields(*(each[part].to(device) for each in Fields.draw(batch, height, width, generator)))
        levels = network.levels(images)
        moved = levels.clone()
        for turn in range(int(lengths.max())):
            for number, name in enumerate(names):
                chosen = ((order[:, turn] == number) & (lengths > turn)).nonzero()[:, 0]
                if not len(chosen):
                    continue
                factor, place = FACTORS[name], chosen.to(device)
                value = factor.value(magnitudes[chosen])
                value = value * signs[chosen, turn] if factor.signed else value
                own = Fields(*(field[place] for field in fields))
                moved[place] = factor.apply(moved[place], value.to(device), own)
        alone = []
        for number, factor in enumerate(FACTORS.values()):
            value = factor.value(torch.full((len(images),), self.magnitude))
            value = value * signs[:, self.longest + number] if factor.signed else value
            alone.append(network.seen(factor.apply(levels, value.to(device), fields)))
        several = network.seen(moved)
        changed = torch.cat(list(network.counterfactuals(several, fields)))
        return images, labels, several, torch.cat(alone), changed

    def loss(self, model: Network, *drawn: Tensor) -> Tensor:
        """Cross-entropy of the images, of corrected single factors, and of several, corrected by what they seem to be.

        Args:
            model: The network.
            *drawn: Images, labels, images with several factors, with one factor each, and counterfactuals of the
                second; the last two factor by factor.
        """
        if not self.share:
            return super().loss(model, *drawn)
        images, labels, several, alone, changed = drawn
        network, count, many = cast(CausalNetwork, model), len(images), len(FACTORS)
        own, single, moved, others = (network.trunk(each) for each in (images, alone, several, changed))
        corrected = network.corrections(single.view(many, count, -1).transpose(0, 1))
        answers, further = network.classifier(moved), network.classifier(others).chunk(many)
        effects = torch.stack([network.effect(answers, each) for each in further], 1)
        inferred = network.corrected(moved, effects)
        wanted = labels[:, None].expand(-1, many).flatten()
        mapping = F.cross_entropy(network.classifier(corrected).flatten(0, 1), wanted)
        mapping = mapping + self.alignment * F.mse_loss(corrected, own[:, None].expand_as(corrected))
        causal = F.cross_entropy(network.classifier(inferred), labels) + self.alignment * F.mse_loss(inferred, own)
        loss = F.cross_entropy(network.classifier(own), labels)
        return loss + self.share * (mapping + self.causal * causal)


def _layers(inputs: int, outputs: int) -> tuple[nn.Parameter, nn.Parameter]:
    """Weights and biases of a dense layer for each factor, as torch draws them."""
    bound, many = inputs**-0.5, len(FACTORS)
    return (
        nn.Parameter(torch.empty(many, inputs, outputs).uniform_(-bound, bound)),
        nn.Parameter(torch.empty(many, outputs).uniform_(-bound, bound)),
    )


def _for_each(field: Tensor, count: int, many: int) -> Tensor:
    """A field for all images as it is, or those of each repeated."""
    return field if len(field) == 1 else field.repeat_interleave(many, 0, output_size=count * many)
