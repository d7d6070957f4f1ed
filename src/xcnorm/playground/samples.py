"""Samples: a strip of pictures of the source, and of each target, to start from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from xcnorm.data import Benchmark, Domain
from xcnorm.data.transforms import grey_to_rgb, resize
from xcnorm.errors import printable
from xcnorm.report.sheets import chosen_pictures, shown_targets

_COUNT = 10
_LABELLED = 256


@dataclass(frozen=True)
class Sample:
    """A picture of which it is known what it shows.

    Attributes:
        picture: ``(1, 3, pixels, pixels)``, uint8.
        truth: The name of its class.
    """

    picture: Tensor
    truth: str


def strips(benchmark: Benchmark, pixels: int) -> dict[str, tuple[Sample, ...]]:
    """Ten samples of the source's held-out pictures and of up to eight targets, by the name of the domain.

    Args:
        benchmark: Where they are from.
        pixels: Height and width they are brought to.
    """
    classes = [printable(name) for name in benchmark.classes]
    domains: Mapping[str, Domain] = {
        "source": benchmark.validation,
        **{printable(name): benchmark.targets[name] for name in shown_targets(benchmark.targets)},
    }
    return {name: _strip(domain, classes, pixels) for name, domain in domains.items()}


def _strip(domain: Domain, classes: Sequence[str], pixels: int) -> tuple[Sample, ...]:
    places = torch.tensor(list(chosen_pictures(domain.labels.numpy(), len(classes), _COUNT)), dtype=torch.int64)
    images = resize(grey_to_rgb(domain.images[places].cpu()).contiguous(), pixels)
    labels = domain.labels[places].tolist()
    return tuple(Sample(image, classes[label]) for image, label in zip(images.split(1), labels, strict=True))


def labelled(benchmark: Benchmark, pixels: int) -> tuple[Tensor, Tensor]:
    """Some of the source's held-out pictures, evenly from all of them, and their labels."""
    domain = benchmark.validation
    places = torch.linspace(0, len(domain) - 1, min(_LABELLED, len(domain))).round().long()
    return resize(grey_to_rgb(domain.images[places].cpu()).contiguous(), pixels), domain.labels[places].cpu()
