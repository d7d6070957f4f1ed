"""Corruptions timed: every one at every severity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from xcnorm.bench.timing import seconds_taken
from xcnorm.data import corruptions, photographs
from xcnorm.data.grid import SEVERITIES
from xcnorm.data.streams import Stream
from xcnorm.environment import environment

GRID = 10_000  # images for each corruption and severity of CIFAR-10-C


def measure(images: Tensor) -> Iterator[tuple[str, list[float]]]:
    """Time all corruptions of images ``(N, 3, H, W)``.

    Yields:
        The name of each, and its seconds at each severity.
    """
    for name in corruptions.names():
        corruptions.corrupt(images[:64], name, 1)  # tables and kernels are made once, not each time
        works = (partial(corruptions.corrupt, images, name, severity) for severity in SEVERITIES)
        yield name, [seconds_taken(work, images.device.type) for work in works]


def summary(seconds: Mapping[str, Sequence[float]], images: Tensor) -> dict[str, Any]:
    """What `measure` found, and how long the grid of CIFAR-10-C takes at that rate."""
    count, total = len(images), sum(map(sum, seconds.values()))
    return {
        "environment": environment(images.device.type),
        "images": count,
        "pixels": images.shape[-1],
        "seconds": dict(seconds),
        "total_seconds": total,
        "grid_seconds": total * GRID / count,
        "images_per_second": count * len(seconds) * len(SEVERITIES) / total,
    }


def crops(count: int, pixels: int) -> Tensor:
    """Pieces of real photographs, ``(count, 3, pixels, pixels)``."""
    photos = torch.stack(photographs())
    stream = Stream(0, "bench", torch.arange(count))
    which = stream.integers(0, len(photos)).view(-1, 1, 1)
    top = stream.integers(0, photos.shape[2] - pixels).view(-1, 1, 1) + torch.arange(pixels).view(1, -1, 1)
    left = stream.integers(0, photos.shape[3] - pixels).view(-1, 1, 1) + torch.arange(pixels).view(1, 1, -1)
    return photos.permute(0, 2, 3, 1)[which, top, left].permute(0, 3, 1, 2).contiguous()
