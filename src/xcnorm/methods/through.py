"""A method that sees its images through an augmentation, which is a method again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, cast

import torch
from torch import Tensor

from xcnorm.methods.augmentation import Augmentation
from xcnorm.methods.method import Method, Numbers
from xcnorm.models import Network


class Through(Method):
    """Learns from views: the method's loss on each, and what the answers to all of them differ by.

    Args:
        method: What learns; it may see through an augmentation itself, whose views are then made of these.
        augmentation: What makes the views.
    """

    def __init__(self, method: Method, augmentation: Augmentation) -> None:
        self._method, self._augmentation = method, augmentation
        self._sizes: list[int] = []  # how many tensors the method has drawn for each view that it learns from
        self._shared: list[int] = []  # the places, in all that is drawn, of views that the method asks about itself

    @property
    def foreseeable(self) -> bool:
        """Whether the method draws nothing itself, and the augmentation draws before it sees images."""
        return self._method.foreseeable and type(self._augmentation).views_of is Augmentation.views_of

    def foresee(self, shape: torch.Size, generator: torch.Generator) -> list[Numbers]:
        """What the augmentation draws; then what the method does for each view that it learns from."""
        own = self._augmentation.draw_numbers(shape, generator)
        inner = [self._method.foresee(shape, generator) for _ in range(self._augmentation.learned)]
        return [own, *chain.from_iterable(inner)]

    def draw(self, images: Tensor, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """What the method draws for each view that it learns from; then the views that are only to be answered."""
        views = self._augmentation.views_of(images, generator)
        return self._drawn(views, lambda view: self._method.draw(view, labels, generator))

    def draw_foreseen(self, images: Tensor, labels: Tensor, foreseen: Iterator[Numbers]) -> tuple[Tensor, ...]:
        """The same of what was foreseen."""
        views = self._augmentation.views_with(images, *next(foreseen))
        return self._drawn(views, lambda view: self._method.draw_foreseen(view, labels, foreseen))

    def _drawn(self, views: list[Tensor], draw: Callable[[Tensor], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        learned = self._augmentation.learned
        others = views[learned:]
        agree = bool(self._augmentation.consistency) and len(views) > 1
        drawn: list[Tensor] = []
        self._sizes, self._shared = [], []
        for view in views[:learned]:
            part = draw(view)
            if agree and part[0] is view:
                self._shared.append(len(drawn))
            elif agree:
                others.append(view)
            self._sizes.append(len(part))
            drawn.extend(part)
        return *drawn, *others

    def loss(self, model: Network, *drawn: Tensor) -> Tensor:
        """The sum of the method's losses, and the disagreement."""
        views = [drawn[place] for place in self._shared]
        network = cast(Network, _Remembering(model, views)) if views else model
        first, *rest = [self._method.loss(network, *part) for part in self._parts(drawn)]
        loss = sum(rest, start=first)
        answers = [network(view) for view in views] + [model(view) for view in drawn[sum(self._sizes) :]]
        return loss + self._augmentation.consistency * self._augmentation.disagreement(answers) if answers else loss

    def after(self, model: Network, *drawn: Tensor) -> None:
        """What follows when the weights have moved."""
        for part in self._parts(drawn):
            self._method.after(model, *part)

    def _parts(self, drawn: Sequence[Tensor]) -> list[tuple[Tensor, ...]]:
        """What the method has drawn, view by view."""
        parts, start = [], 0
        for size in self._sizes:
            parts.append(tuple(drawn[start : start + size]))
            start += size
        return parts


class _Remembering:
    """A network that answers some batches once: methods ask about views, and so does the consistency."""

    def __init__(self, network: Network, batches: Sequence[Tensor]) -> None:
        self._network, self._batches = network, batches
        self._answers: dict[int, Tensor] = {}

    def __call__(self, images: Tensor) -> Tensor:
        if not any(images is batch for batch in self._batches):
            return self._network(images)
        if id(images) not in self._answers:
            self._answers[id(images)] = self._network(images)
        return self._answers[id(images)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)
