"""The training as a method sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from xcnorm.data.training_images import Change, TrainingImages
from xcnorm.models import Network


@dataclass
class Training:
    """The network, its images, and how far it is.

    Attributes:
        network: The network itself, on its device, as `Method.adapt` left it.
        images: The images it learns from; a method may add some.
        device: Where everything is computed.
        batch: Images in a batch of all processes together.
        part: Which of them are this process's; random numbers for each image are drawn for all and cut by it, so that
            the number of processes does not matter.
        steps: The number of training steps in all.
        changes: What happens to training images before they are normalised, also to those that a method takes itself.
        step: The number of training steps done.
        rate: The learning rate of the next step.
    """

    network: Network
    images: TrainingImages
    device: torch.device
    batch: int
    part: slice
    steps: int
    changes: Sequence[Change] = ()
    step: int = 0
    rate: float = 0.0
