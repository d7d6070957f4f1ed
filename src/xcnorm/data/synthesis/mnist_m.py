"""MNIST-M: handwritten digits blended into photographs, by the recipe of Ganin and Lempitsky (2015)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from xcnorm.data.streams import Stream, indices
from xcnorm.errors import UserError


def blend(digits: Tensor, photographs: Sequence[Tensor], *, seed: int = 0, index: Tensor | None = None) -> Tensor:
    """Blend each digit with a random crop of a random photograph: the absolute difference, channel by channel.

    Args:
        digits: ``(N, 1, H, W)``, uint8.
        photographs: Each ``(3, height, width)``, uint8, at least as large as the digits.
        seed: Seed of the crops.
        index: ``(N,)``, int64: which image each one is; 0, 1, 2, ... unless given.

    Returns:
        ``(N, 3, H, W)``, uint8.

    Raises:
        UserError: The digits, the photographs or the index are not as described above.
    """
    if digits.ndim != 4 or digits.shape[1] != 1 or digits.dtype != torch.uint8:
        raise UserError(f"digits must be uint8 of shape (N, 1, H, W), not {digits.dtype} of {tuple(digits.shape)}")
    if not photographs:
        raise UserError("blending needs at least one photograph; pass some, such as those of xcnorm.data.embedded")
    height, width = digits.shape[2:]
    for place, photograph in enumerate(photographs):
        shape = tuple(photograph.shape)
        if photograph.dtype != torch.uint8 or len(shape) != 3 or shape[0] != 3 or shape[1] < height or shape[2] < width:
            raise UserError(
                f"photograph {place} must be uint8 of shape (3, {height} or more, {width} or more), "
                f"not {photograph.dtype} of {shape}"
            )
    chosen, top, left = _crops(seed, indices(len(digits), index), photographs, height, width)
    result = digits.new_empty(len(digits), 3, height, width)
    for place, photograph in enumerate(photographs):
        rows = (chosen == place).nonzero()
        down = top[rows] + torch.arange(height)
        right = left[rows] + torch.arange(width)
        crops = photograph[:, down.unsqueeze(2), right.unsqueeze(1)].movedim(0, 1)
        result[rows[:, 0]] = (crops.short() - digits[rows[:, 0]].short()).abs().to(torch.uint8)
    return result


class _Crops(NamedTuple):
    """Which photograph each image's crop is from, and the crop's first row and column; each ``(N,)``."""

    photograph: Tensor
    top: Tensor
    left: Tensor


def _crops(seed: int, index: Tensor, photographs: Sequence[Tensor], height: int, width: int) -> _Crops:
    """Draw crops: photographs evenly, then positions evenly over all that fit."""
    stream = Stream(seed, "mnist_m", index)
    chosen = stream.integers(0, len(photographs))
    room = torch.tensor([[p.shape[1] - height + 1, p.shape[2] - width + 1] for p in photographs])[chosen]
    # The room differs between photographs, so whole numbers of 24 bits are scaled to it, without rounding up.
    top, left = (stream.integers(0, 1 << 24, 2) * room >> 24).unbind(1)
    return _Crops(chosen, top, left)
