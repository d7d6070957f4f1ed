"""The images that a network learns from: a source, and what a training method adds to it on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from xcnorm.data import transforms
from xcnorm.data.domain import Domain

_RESIDENT = 0.5  # the share of a GPU's free memory that the training images may take

Change = Callable[[Tensor], Tensor]
"""From images to images, such as a random crop."""


@dataclass(frozen=True)
class Preparation:
    """From images to what a network sees, and back.

    Attributes:
        mean: Subtracted from values in [0, 1]; one number, or one for each channel.
        std: What they are then divided by.
        channels_last: The memory layout of the result.
    """

    mean: float | Sequence[float] = 0.5
    std: float | Sequence[float] = 0.5
    channels_last: bool = False

    def __call__(self, images: Tensor) -> Tensor:
        """Bytes, or floating point from 0 to 1, to three normalised channels."""
        ready = transforms.normalise(transforms.grey_to_rgb(images), self.mean, self.std)
        return ready.contiguous(memory_format=torch.channels_last) if self.channels_last else ready

    def undo(self, inputs: Tensor) -> Tensor:
        """What a network sees to floating point from 0 to 1, or beyond where the input was."""
        mean, std = (torch.as_tensor(value).view(-1, 1, 1).to(inputs) for value in (self.mean, self.std))
        return inputs * std + mean


class TrainingImages:
    """Training images: the source's, followed by those that were added.

    Args:
        source: The source; kept on the device where it fits.
        prepare: Makes of images what the network sees.
        device: Where batches are made.

    Attributes:
        source_size: The number of the source's images; indices from there on are of added ones.
    """

    def __init__(self, source: Domain, prepare: Preparation, device: torch.device) -> None:
        self.prepare = prepare
        self.source_size = len(source)
        self._device = device
        self._images, self._labels = source.images, source.labels.to(device)
        if device.type == "cuda" and source.images.numel() < _RESIDENT * torch.cuda.mem_get_info(device)[0]:
            self._images = source.images.to(device)
        self._added: list[tuple[Tensor, Tensor]] = []

    def __len__(self) -> int:
        return self.source_size + sum(len(labels) for _, labels in self._added)

    def add(self, inputs: Tensor, labels: Tensor, *, as_bytes: bool) -> None:
        """Keep images that were made from others.

        Args:
            inputs: ``(N, 3, H, W)``, as the network sees them.
            labels: ``(N,)``.
            as_bytes: Whether they are cut to the range of an image and rounded to bytes, or kept as they are, in half
                precision.
        """
        images = self.prepare.undo(inputs.detach())
        images = (images.clamp(0, 1) * 255).round().byte() if as_bytes else images.half()
        self._added.append((images.contiguous(), labels.to(self._device)))

    def take(self, index: Tensor, changes: Sequence[Change] = ()) -> tuple[Tensor, Tensor]:
        """Images as the network sees them, and their labels, on the device.

        Args:
            index: Which, ``(N,)``, on the CPU.
            changes: What is done to the images before they are normalised.
        """
        own = index < self.source_size
        if own.all():
            images, labels = self._source(index)
        else:
            self._join()
            images, labels = self._mixed(index, own)
        for change in changes:
            images = change(images)
        return self.prepare(images), labels

    def state_dict(self) -> dict[str, Any]:
        """What was added."""
        return {"added": [list(pair) for pair in self._added]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Have what was added when the state was taken."""
        self._added = [(images.to(self._device), labels.to(self._device)) for images, labels in state["added"]]

    def _join(self) -> None:
        """All that was added in one part."""
        if len(self._added) > 1:
            # Autocast to bfloat16, within which a method may ask, refuses to join what is float16.
            with torch.autocast(self._device.type, enabled=False):
                self._added = [(torch.cat(part), torch.cat(other)) for part, other in [zip(*self._added, strict=True)]]

    def _source(self, index: Tensor) -> tuple[Tensor, Tensor]:
        images = self._images[index.to(self._images.device)].to(self._device)
        return images, self._labels[index.to(self._device)]

    def _mixed(self, index: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
        """From both, in the order of the index: all in floating point from 0 to 1, with three channels."""
        ((added, added_labels),) = self._added
        order = torch.cat([own.nonzero()[:, 0], (~own).nonzero()[:, 0]]).argsort().to(self._device)
        images, labels = self._source(index[own])
        others = (index[~own] - self.source_size).to(self._device)
        parts = [transforms.grey_to_rgb(transforms.to_float(images)), _floating(added[others])]
        return torch.cat(parts)[order], torch.cat([labels, added_labels[others]])[order]


def _floating(images: Tensor) -> Tensor:
    return transforms.to_float(images) if images.dtype == torch.uint8 else images.float()
