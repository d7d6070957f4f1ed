"""The grid of corruptions and severities: targets made by corrupting held-out images."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import torch
from torch import Tensor

from xcnorm.data.corruptions import corrupt, published
from xcnorm.data.corruptions.corruption import CORRUPTIONS
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
        corruptions: Which corruptions; the nineteen published ones unless given.
        seed: Seed of everything random.
        frost: The user's own pictures of frost; procedural ones unless given.

    Raises:
        UserError: There is no such corruption.
    """
    chosen = published() if corruptions is None else tuple(corruptions)
    for name in chosen:
        CORRUPTIONS[name]
    makers = {
        f"{name}/{severity}": partial(_corrupted, clean, name, severity, seed, frost if name == "frost" else None)
        for name in chosen
        for severity in SEVERITIES
    }
    return Targets(makers, computed=True)


def _corrupted(
    clean: LabelledImages,
    name: str,
    severity: int,
    seed: int,
    frost: tuple[Tensor, ...] | None,
    device: torch.device | str | None = None,
) -> Domain:
    images = corrupt(clean.images.to(device), name, severity, seed, frost=frost)
    return Domain(f"{name}/{severity}", images, clean.labels, "corrupted by xcnorm")
