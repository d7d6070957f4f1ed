"""Batches: what a network is fed with in training."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial, reduce

import torch
from torch import Tensor

from xcnorm.data import Sampler, transforms
from xcnorm.data.training_images import Change, Preparation, TrainingImages
from xcnorm.engine.experiment import Experiment
from xcnorm.engine.settings import DataSettings


def preparation(experiment: Experiment) -> Preparation:
    """The function from bytes to what the network sees: three channels, normalised."""
    return Preparation(experiment.data.mean, experiment.data.std, experiment.run.channels_last)


class Batches:
    """Training batches without end, which several processes share.

    Every process draws the random numbers of the whole batch and takes its own part of it, so that the number of
    processes does not matter.

    Args:
        images: The training images.
        batch: Images in a batch of all processes together.
        data: What happens to them.
        seed: Seed of their order.
        generator: Where augmentations draw from.
        part: Which images of a batch are this process's.
        source_only: Whether images that were added to them are left out.

    Attributes:
        sampler: Their order.
        changes: What is done to images before they are normalised.
    """

    def __init__(
        self,
        images: TrainingImages,
        batch: int,
        data: DataSettings,
        *,
        seed: int,
        generator: torch.Generator,
        part: slice,
        source_only: bool,
    ) -> None:
        self._images, self._part = images, part
        self._source_only = source_only
        self.changes = [partial(transforms.RANDOM[name], generator=generator) for name in data.augment]
        self.sampler = Sampler(self._size, batch, seed=seed)

    def __next__(self) -> tuple[Tensor, Tensor]:
        images, labels, _ = self.take(1)
        return images, labels

    def take(self, count: int) -> tuple[Tensor, Tensor, list[int]]:
        """So many batches: their images, one batch after the other, their labels, and the epoch of each."""
        self.sampler.resize(self._size)
        epochs, order = zip(*((self.sampler.epoch, next(self.sampler)) for _ in range(count)), strict=True)
        index = torch.stack(order)

        def changed(images: Tensor) -> Tensor:
            # Batch by batch, and each whole: changes draw random numbers for all images that they are given.
            return torch.cat([reduce(_apply, self.changes, batch) for batch in images.split(index.shape[1])])

        images, labels = self._images.take(index.flatten(), [changed] if self.changes else [])
        return self._own(images, count), self._own(labels, count), list(epochs)

    def _own(self, values: Tensor, count: int) -> Tensor:
        return values.unflatten(0, (count, -1))[:, self._part].flatten(0, 1)

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on from a sampler's state; the images have grown already, and some may have had no turn yet."""
        if self._images.source_size <= state["length"] <= len(self._images):
            self.sampler.resize(state["length"])
        self.sampler.load_state_dict(state)

    @property
    def _size(self) -> int:
        return self._images.source_size if self._source_only else len(self._images)


def _apply(images: Tensor, change: Change) -> Tensor:
    return change(images)
