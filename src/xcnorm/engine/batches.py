"""From the images of a domain to what a network is fed with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from xcnorm.data import Sampler, transforms
from xcnorm.data.training_images import Preparation, TrainingImages
from xcnorm.engine.experiment import DataSection

_AUGMENTATIONS: dict[str, Callable[..., Tensor]] = {
    "flip": transforms.random_flip,
    "crop": transforms.random_crop,
    "resized_crop": transforms.random_resized_crop,
    "jitter": transforms.colour_jitter,
    "grey": transforms.random_grey,
}


def preparation(data: DataSection, channels_last: bool = False) -> Preparation:
    """The function from bytes to what the network sees: three channels, normalised."""
    return Preparation(data.mean, data.std, channels_last)


class Batches:
    """Training batches without end, which several processes share.

    Every process draws the random numbers of the whole batch and takes its own part of it, so that the number of
    processes does not matter.

    Args:
        pool: The training images.
        batch: Images in a batch of all processes together.
        data: What happens to them.
        seed: Seed of their order.
        generator: Where augmentations draw from.
        part: Which images of a batch are this process's.
        source_only: Whether images that were added to the pool are left out.

    Attributes:
        sampler: Their order.
        changes: What is done to images before they are normalised.
    """

    def __init__(
        self,
        pool: TrainingImages,
        batch: int,
        data: DataSection,
        *,
        seed: int,
        generator: torch.Generator,
        part: slice,
        source_only: bool,
    ) -> None:
        self._pool, self._part = pool, part
        self._source_only = source_only
        self.changes = [partial(_AUGMENTATIONS[name], generator=generator) for name in data.augment]
        self.sampler = Sampler(self._size, batch, seed=seed)

    def __next__(self) -> tuple[Tensor, Tensor]:
        self.sampler.resize(self._size)
        # Whole: changes draw random numbers for all images of a batch.
        images, labels = self._pool.take(next(self.sampler), self.changes)
        return images[self._part], labels[self._part]

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on from a sampler's state; the pool has gone on already, and may hold images that had no turn yet."""
        if self._pool.source_size <= state["length"] <= len(self._pool):
            self.sampler.resize(state["length"])
        self.sampler.load_state_dict(state)

    @property
    def _size(self) -> int:
        return self._pool.source_size if self._source_only else len(self._pool)


@torch.no_grad()
def predict(
    model: nn.Module,
    images: Tensor,
    prepare: Callable[[Tensor], Tensor],
    device: torch.device,
    *,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Tensor:
    """The probability of each class, ``(N, C)``, float32 on the CPU; the network is in evaluation mode meanwhile."""
    batch = 1000 if device.type == "cuda" else 100  # what goes fastest: a CPU's caches hold little
    training = model.training
    model.eval()
    parts = []
    for part in images.split(batch):
        with autocast():
            logits = model(prepare(part.to(device)))
        parts.append(logits.float().softmax(1))
    model.train(training)
    return torch.cat(parts).cpu()


def accuracy(probabilities: Tensor, labels: Tensor) -> float:
    """The share of images whose likeliest class is the right one."""
    return (probabilities.argmax(1) == labels).double().mean().item()
