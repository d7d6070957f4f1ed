"""Targets made by corrupting held-out images: one for each corruption and severity."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import torch
from torch import Tensor

from xcnorm.data.corruptions import corrupt, names
from xcnorm.data.domain import Domain, LabelledImages, Targets

SEVERITIES = (1, 2, 3, 4, 5)


def corrupted_targets(
    clean: LabelledImages,
    *,
    corruptions: Iterable[str] | None = None,
    seed: int = 0,
    frost: tuple[Tensor, ...] | None = None,
) -> Targets:
    """A target such as ``"fog/5"`` for each corruption and severity, corrupted when it is asked for.

    Args:
        clean: The images to corrupt.
        corruptions: Which corruptions; all of them unless given.
        seed: Seed of everything random.
        frost: The user's own pictures of frost; procedural ones unless given.
    """
    chosen = tuple(names() if corruptions is None else corruptions)
    makers = {
        f"{name}/{severity}": partial(_corrupted, clean, name, severity, seed, frost if name == "frost" else None)
        for name in chosen
        for severity in SEVERITIES
    }

    def on(device: torch.device) -> Targets:
        there = LabelledImages(clean.images.to(device), clean.labels)
        return corrupted_targets(there, corruptions=chosen, seed=seed, frost=frost)

    return Targets(makers, on)


def _corrupted(clean: LabelledImages, name: str, severity: int, seed: int, frost: tuple[Tensor, ...] | None) -> Domain:
    images = corrupt(clean.images, name, severity, seed, frost=frost)
    return Domain(f"{name}/{severity}", images, clean.labels, "corrupted by xcnorm")
