"""Labelled images, domains of them, and benchmarks of domains: what data is made of here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from xcnorm.data.card import Card


class LabelledImages(NamedTuple):
    """Images and what they show.

    Attributes:
        images: ``(N, C, H, W)``, uint8, with one grey channel or three of red, green and blue; in memory, or a view of
            a file mapped into memory.
        labels: ``(N,)``, int64.
    """

    images: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Domain:
    """Images of one look: one hospital, one camera, one corruption at one severity.

    Attributes:
        name: Its name in tables, such as ``"svhn"`` or ``"fog/5"``.
        images: ``(N, C, H, W)``, uint8.
        labels: ``(N,)``, int64.
        note: What a reader of the table must know, such as ``"28-pixel copy, upsampled"``; often empty.
    """

    name: str
    images: Tensor
    labels: Tensor
    note: str = ""

    def __len__(self) -> int:
        return len(self.labels)

    def share(self, share: float, seed: int) -> Domain:
        """Some of it: this share of each class, at least one image, chosen by the seed, in the order they are in."""
        generator = torch.Generator().manual_seed(seed)
        kept = []
        for label in self.labels.unique():
            places = (self.labels == label).nonzero()[:, 0]
            count = max(1, round(share * len(places)))
            kept.append(places[torch.randperm(len(places), generator=generator)[:count]])
        chosen = torch.cat(kept).sort().values
        return replace(self, images=self.images[chosen], labels=self.labels[chosen])


class Targets(Mapping[str, Domain]):
    """The target domains by name, in the order of the tables.

    What is made is made when it is asked for, and not kept: the grid of CIFAR-10-C is larger than many memories.

    Args:
        domains: For each name its domain, or a function that makes it.
        computed: Whether these functions take a ``device``, and do their work there.
        device: That one.
    """

    def __init__(
        self,
        domains: Mapping[str, Domain | Callable[..., Domain]],
        *,
        computed: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        self._domains, self._computed, self._device = dict(domains), computed, device

    def on(self, device: torch.device | str) -> Targets:
        """The same targets; what is computed is so on this device, and its images stay there."""
        return Targets(self._domains, computed=self._computed, device=device)

    def __getitem__(self, name: str) -> Domain:
        found = self._domains[name]
        if isinstance(found, Domain):
            return found
        return found(device=self._device) if self._computed else found()

    def __contains__(self, name: object) -> bool:
        return name in self._domains  # without making it

    def __iter__(self) -> Iterator[str]:
        return iter(self._domains)

    def __len__(self) -> int:
        return len(self._domains)


@dataclass(frozen=True)
class Benchmark:
    """A source to learn from and targets to be tested on.

    Attributes:
        card: What the benchmark is, where it comes from and how it is scored.
        title: Its heading in tables; says so where the data is not the published one.
        classes: The name of each label.
        train: The source's training images.
        validation: The source's held-out images.
        targets: The domains to test on, by name; each is made when it is asked for.
        missing: For each target that could not be had, why, and what to do about it.
        warnings: What is odd about the data without being wrong, such as a class that one domain lacks.
    """

    card: Card
    title: str
    classes: tuple[str, ...]
    train: Domain
    validation: Domain
    targets: Targets
    missing: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
