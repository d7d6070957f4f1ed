"""The probe: the source's held-out images as seen through augmentations that training does not use.

What to train with must be chosen without the targets, and the source as it is tells little: every network is nearly
right on it. How a network answers to changes that it has not been trained on is the next best thing to know.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from xcnorm.data import Domain
from xcnorm.data.training_images import Preparation
from xcnorm.data.transforms import grey_to_rgb
from xcnorm.engine import seeding
from xcnorm.methods import find_augmentation

_TOGETHER = 32  # images that share what an augmentation draws once for a batch


@torch.no_grad()
def probe(validation: Domain, names: Iterable[str], device: torch.device) -> dict[str, Domain]:
    """The validation images through each of some augmentations: the same views whenever they are asked for.

    Args:
        validation: The source's held-out images.
        names: Of augmentations, which are used with their default settings.
        device: Where the views are made, and stay.
    """
    made = {}
    for name in names:
        augmentation = find_augmentation(name).make({})
        generator = seeding.stream(0, f"probe/{name}")
        parts = []
        for images in grey_to_rgb(validation.images).split(_TOGETHER):
            inputs = Preparation()(images.to(device))
            view = augmentation.views_of(inputs, generator)[-1]  # before it may stand the images themselves
            parts.append((255 * augmentation.pictures(view)).round().to(torch.uint8))
        made[name] = Domain(name, torch.cat(parts), validation.labels)
    return made
