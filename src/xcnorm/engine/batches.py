"""From the images of a domain to what a network is fed with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from xcnorm.data import Domain, Sampler, transforms
from xcnorm.engine.experiment import DataSection

_AUGMENTATIONS: dict[str, Callable[..., Tensor]] = {
    "flip": transforms.random_flip,
    "crop": transforms.random_crop,
    "resized_crop": transforms.random_resized_crop,
    "jitter": transforms.colour_jitter,
    "grey": transforms.random_grey,
}
_RESIDENT = 0.5  # the share of a GPU's free memory that the training images may take


def preparation(data: DataSection, channels_last: bool = False) -> Callable[[Tensor], Tensor]:
    """The function from bytes to what the network sees: three channels, normalised."""

    def prepare(images: Tensor) -> Tensor:
        ready = transforms.normalise(transforms.grey_to_rgb(images), data.mean, data.std)
        return ready.contiguous(memory_format=torch.channels_last) if channels_last else ready

    return prepare


class Batches:
    """Training batches without end, which several processes share.

    Every process draws the random numbers of the whole batch and takes its own part of it, so that the number of
    processes does not matter.

    Args:
        source: The training images; kept on the device where they fit.
        batch: Images in a batch of all processes together.
        data: What happens to them.
        seed: Seed of their order.
        generator: Where augmentations draw from.
        device: Where batches are made.
        part: Which images of a batch are this process's.
        channels_last: The memory layout.
    """

    def __init__(
        self,
        source: Domain,
        batch: int,
        data: DataSection,
        *,
        seed: int,
        generator: torch.Generator,
        device: torch.device,
        part: slice,
        channels_last: bool,
    ) -> None:
        self.sampler = Sampler(len(source), batch, seed=seed)
        self._images, self._labels = source.images, source.labels.to(device)
        if device.type == "cuda" and source.images.numel() < _RESIDENT * torch.cuda.mem_get_info(device)[0]:
            self._images = source.images.to(device)
        self._augment = [partial(_AUGMENTATIONS[name], generator=generator) for name in data.augment]
        self._prepare = preparation(data, channels_last)
        self._device, self._part = device, part

    def __next__(self) -> tuple[Tensor, Tensor]:
        index = next(self.sampler)
        images = self._images[index.to(self._images.device)].to(self._device)
        for augment in self._augment:
            images = augment(images)
        return self._prepare(images[self._part]), self._labels[index[self._part].to(self._device)]


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
