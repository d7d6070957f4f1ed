"""Batches: what a network is fed with in training."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from xcnorm.data import Sampler, transforms
from xcnorm.data.training_images import Preparation, TrainingImages
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
        self.sampler.resize(self._size)
        # Whole: changes draw random numbers for all images of a batch.
        images, labels = self._images.take(next(self.sampler), self.changes)
        return images[self._part], labels[self._part]

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on from a sampler's state; the images have grown already, and some may have had no turn yet."""
        if self._images.source_size <= state["length"] <= len(self._images):
            self.sampler.resize(state["length"])
        self.sampler.load_state_dict(state)

    @property
    def _size(self) -> int:
        return self._images.source_size if self._source_only else len(self._images)
