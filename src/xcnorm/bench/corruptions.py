"""How fast images are corrupted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from xcnorm.bench.clock import seconds_taken
from xcnorm.data import corruptions, photographs
from xcnorm.data.grid import SEVERITIES
from xcnorm.data.streams import Stream
from xcnorm.environment import environment

GRID = 10_000  # images for each corruption and severity of CIFAR-10-C


def measure(device: str, images: int, pixels: int, done: Callable[[str, float], None]) -> dict[str, Any]:
    """Time every corruption at every severity, and say how long the grid of CIFAR-10-C takes at that rate.

    Args:
        device: ``"cpu"`` or ``"cuda"``.
        images: How many images of each corruption and severity; 10,000 measures the grid itself.
        pixels: Their height and width.
        done: Told of each corruption, with its seconds.
    """
    batch = crops(images, pixels).to(device)
    seconds: dict[str, list[float]] = {}
    for name in corruptions.names():
        corruptions.corrupt(batch[:64], name, 1)  # tables and kernels are made once, not each time
        seconds[name] = [_time(batch, name, severity) for severity in SEVERITIES]
        done(name, sum(seconds[name]))
    total = sum(map(sum, seconds.values()))
    return {
        "environment": environment(device),
        "images": images,
        "pixels": pixels,
        "seconds": seconds,
        "total_seconds": total,
        "grid_seconds": total * GRID / images,
        "images_per_second": images * len(seconds) * len(SEVERITIES) / total,
    }


def crops(count: int, pixels: int) -> Tensor:
    """Pieces of real photographs, ``(count, 3, pixels, pixels)``."""
    photos = torch.stack(photographs())
    stream = Stream(0, "bench", torch.arange(count))
    which = stream.integers(0, len(photos)).view(-1, 1, 1)
    top = stream.integers(0, photos.shape[2] - pixels).view(-1, 1, 1) + torch.arange(pixels).view(1, -1, 1)
    left = stream.integers(0, photos.shape[3] - pixels).view(-1, 1, 1) + torch.arange(pixels).view(1, 1, -1)
    return photos.permute(0, 2, 3, 1)[which, top, left].permute(0, 3, 1, 2).contiguous()


def _time(images: Tensor, name: str, severity: int) -> float:
    return seconds_taken(lambda: corruptions.corrupt(images, name, severity), images.device)
