"""What a format of exported networks is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from xcnorm.models.about import About

Run = Callable[[Tensor], Tensor]
"""A network that was read back: from images ``(N, C, H, W)`` to what it answers."""


@dataclass(frozen=True)
class Format:
    """A format.

    Attributes:
        name: What people call it.
        suffix: Of its files.
        to_bytes: From a fused network, two images of its size, what else is known of it, and whether images may have
            other sizes, to the content of a file.
        load: From the content to a function, on a device; None where the package is missing that could run it.
    """

    name: str
    suffix: str
    to_bytes: Callable[[nn.Module, Tensor, About, bool], bytes]
    load: Callable[[bytes, torch.device], Run | None]
