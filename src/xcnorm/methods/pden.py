"""PDEN: new domains one after the other, each by a generator that learns beside the network (Li et al., CVPR 2021).

A generator looks for images that are hard to recognise as what they were made of, but keep their class and can be
turned back; the network learns them, and to see that they are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xcnorm.errors import UserError
from xcnorm.methods.contrasts import image_confusion, image_contrast
from xcnorm.methods.generator import NOISE, Generator
from xcnorm.methods.inner_adam import InnerAdam
from xcnorm.methods.method import Method, register_method
from xcnorm.methods.training import Training
from xcnorm.models import Network
from xcnorm.ops.spec import full_precision

_PROJECTION = 128  # the length of the vectors that are contrasted


@register_method("pden")
@dataclass
class PDEN(Method):
    """Progressive domain expansion. In a step the network moves first, then the generator of the newest domain.

    Attributes:
        domains: How many domains are added. 0 adds none.
        warmup: Steps of ERM before the first.
        gap: Steps for which a domain is the newest.
        frozen: The share of them, at the end, in which its generator no longer learns.
        rate: The learning rate of the generators, by Adam.
        contrast: The weight of the contrastive loss over the views of an image.
        temperature: Of both contrastive losses.
        classes: The weight in the generator's loss of the cross-entropy of its images.
        cycle: The weight of how badly its images can be turned back.
        diversity: The weight of how much noise changes its images.
        widest: The mean difference of two images of one from which more is worth nothing.
        confusion: The weight of how hard its images are to match with an earlier view of theirs.
    """

    domains: int = 20
    warmup: int = 5000
    gap: int = 3000
    frozen: float = 0.5
    rate: float = 1e-4
    contrast: float = 1.0
    temperature: float = 0.07
    classes: float = 1.0
    cycle: float = 20.0
    diversity: float = 2.0
    widest: float = 0.5
    confusion: float = 0.1

    capturable = True
    scalable = False
    cost = 5.0
    distributed = "its losses compare all images of a batch with one another"
    neutral = {"domains": 0}  # noqa: RUF012 - a constant of the class

    def validate(self) -> None:
        """Look at the values of the settings."""
        if self.gap < 1:
            raise UserError(f"gap of method pden must be 1 or more, not {self.gap!r}")
        if not 0 <= self.frozen <= 1:
            raise UserError(f"frozen of method pden is a share from 0 to 1, not {self.frozen!r}")
        if self.temperature <= 0:
            raise UserError(f"temperature of method pden must be above 0, not {self.temperature!r}")
        names = ("domains", "warmup", "rate", "contrast", "classes", "cycle", "diversity", "widest", "confusion")
        for name in names:
            if getattr(self, name) < 0:
                raise UserError(f"{name} of method pden must be 0 or more, not {getattr(self, name)!r}")

    def begin(self, training: Training) -> None:
        """Make room for the generators."""
        super().begin(training)
        if not self.domains:
            return
        if training.batch < 2:
            raise UserError("method pden compares the images of a batch; set schedule.batch to 2 or more")
        if self.warmup + self.domains * self.gap > training.steps:
            raise UserError(
                f"{self.domains} domains of method pden, {self.gap} steps each after {self.warmup} of ERM, do not fit "
                f"into {training.steps} steps; make its domains, gap or warmup smaller, or train longer"
            )
        device, prepare = training.device, training.images.prepare
        (image,), _ = training.images.take(torch.zeros(1, dtype=torch.int64))
        self._projection = nn.Linear(training.network.embedding_size, _PROJECTION)
        self._generator = Generator(len(image))
        self._known = torch.zeros(self.domains, self._generator.size, device=device)  # weights of earlier domains
        self._newest = torch.zeros(self._generator.size, device=device)
        self._back = torch.zeros(self._generator.size, device=device)  # turns images of the newest domain back
        self._adam = InnerAdam([self._newest, self._back], self.rate)
        self._begun = 0  # domains
        # What a network sees of black, and from there to white.
        self._black = prepare(torch.zeros(1, len(image), 1, 1, device=device))
        self._range = prepare(torch.ones(1, len(image), 1, 1, device=device)) - self._black

    def companion(self) -> nn.Module | None:
        """The layer whose output is contrasted."""
        return self._projection if self.domains else None

    def pending(self) -> bool:
        """Whether the next domain is due."""
        return self._domains_at(self.training.step) > self._begun if self.domains else False

    def work(self, generator: torch.Generator) -> None:
        """Begin a domain with new weights; those of the one before are kept."""
        if self._begun:
            self._known[self._begun - 1].copy_(self._newest)
        for weights in (self._newest, self._back):
            weights.copy_(self._generator.draw(generator))
        self._adam.reset()
        self._begun += 1

    def draw(self, images: Tensor, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """The batch, and noise; then an earlier generator with its noise and shares, where there is one.

        While the newest generator learns, also other noise, and the number of the view that it is compared with.
        """
        if not self._domains_at(self.training.step):
            return images, labels
        count, device = len(images), images.device

        def noise() -> Tensor:
            return torch.randn(count, NOISE, generator=generator).to(device)

        drawn = [images, labels, noise()]
        earlier = self._begun - 1
        if earlier:
            chosen = int(torch.randint(earlier, (), generator=generator))
            shares = torch.rand(count, 1, 1, 1, generator=generator)
            drawn += [self._known[chosen], noise(), shares.to(device)]
        if self._learns(self.training.step):
            view = torch.randint(3 if earlier else 1, (1,), generator=generator)
            drawn += [noise(), view.to(device)]
        return tuple(drawn)

    def loss(self, model: Network, *drawn: Tensor) -> Tensor:
        """Cross-entropy of all views, each in full, and how hard they are to match."""
        images, labels, *further = drawn
        if not further:
            return super().loss(model, images, labels)
        with torch.no_grad():
            views = [*self.earlier_views(images, further), self.made(self._newest, images, further[0])]
        embedding = model.features(torch.cat(views))
        answers = model.classifier(embedding)
        loss = len(views) * F.cross_entropy(answers, labels.repeat(len(views)))
        vectors = self._projection(embedding)
        with full_precision(images.device):
            vectors = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
            return loss + self.contrast * image_contrast(vectors.chunk(len(views)), self.temperature)

    def after(self, model: Network, *drawn: Tensor) -> None:
        """A step of the newest generator, and of what turns its images back, while it learns."""
        images, labels, *further = drawn
        if len(further) not in (3, 6):
            return
        *others, again, view = further
        model.eval()
        with torch.no_grad():
            seen = torch.stack(self.earlier_views(images, others)).index_select(0, view)[0]
            goal = self._projection(model.features(seen))
        weights, back = (each.detach().requires_grad_() for each in (self._newest, self._back))
        made, other = self.made(weights, images, others[0]), self.made(weights, images, again)
        embedding = model.features(made)
        loss = self.classes * F.cross_entropy(model.classifier(embedding), labels)
        vectors = self._projection(embedding)
        model.train()
        with full_precision(images.device):
            dtype = torch.promote_types(vectors.dtype, torch.float32)
            confusion = image_confusion(vectors.to(dtype), goal.to(dtype), self.temperature)
            values, made, other = (self.values(each) for each in (images, made, other))
            spread = (made - other).abs().mean((1, 2, 3)).clamp_max(self.widest).mean()
            cycle = F.mse_loss(self._generator(back, made), values)
            loss = loss + self.confusion * confusion - self.diversity * spread + self.cycle * cycle
        self._adam.step(torch.autograd.grad(loss, [weights, back]))

    def earlier_views(self, images: Tensor, further: list[Tensor]) -> list[Tensor]:
        """The images; and where there was an earlier domain, in its look, and in between.

        Args:
            images: ``(N, C, H, W)``.
            further: What `draw` made besides the batch.
        """
        if len(further) < 4:
            return [images]
        weights, noise, shares = further[1:4]
        made = self.made(weights, images, noise)
        return [images, made, shares * images + (1 - shares) * made]

    def made(self, weights: Tensor, images: Tensor, noise: Tensor) -> Tensor:
        """Images in the look of a generator; both as the network sees them."""
        with full_precision(images.device):
            return self._black + self._range * self._generator(weights, self.values(images), noise)

    def values(self, images: Tensor) -> Tensor:
        """What a network sees to values from 0 to 1."""
        return (images - self._black) / self._range

    def state_dict(self) -> dict[str, Any]:
        """The generators, and how the newest one learns."""
        if not self.domains:
            return {}
        weights = {"known": self._known, "newest": self._newest, "back": self._back}
        return {**weights, "adam": self._adam.state_dict(), "begun": self._begun}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, in the same memory."""
        if not self.domains:
            return
        for name in ("known", "newest", "back"):
            getattr(self, f"_{name}").copy_(state[name])
        self._adam.load_state_dict(state["adam"])
        self._begun = state["begun"]

    def _domains_at(self, step: int) -> int:
        """Domains that have begun when so many steps are done, the next one not being one of them."""
        if not self.domains or step < self.warmup:
            return 0
        return min(self.domains, (step - self.warmup) // self.gap + 1)

    def _learns(self, step: int) -> bool:
        """Whether the generator of the newest domain does in the next step."""
        return step - self.warmup - (self._begun - 1) * self.gap < (1 - self.frozen) * self.gap
