"""Random numbers that belong to an image, not to a place in a queue.

Each number is a hash of the seed, the name of its purpose, the image's index, the number of the draw and the position
in it. So an image gets the same numbers in a batch of one and in a batch of a thousand, and on every device: the hash
is integer arithmetic, exact everywhere (SplitMix64, whose outputs pass the usual batteries of tests when a counter is
fed in), and only what is computed from it in floating point may differ in the last bit.
"""

from __future__ import annotations

import hashlib
import math

import torch
from torch import Tensor

from xcnorm.errors import UserError

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed number
_FIRST = -4658895280553007687  # 0xBF58476D1CE4E5B9
_SECOND = -7723592293110705685  # 0x94D049BB133111EB


class Stream:
    """The random numbers of a batch of images.

    Args:
        seed: The user's seed.
        purpose: A name, so that two uses of one seed have nothing in common.
        index: ``(N,)``, int64: which image each one is.
        device: Where the numbers are made; that of `index` unless given.
    """

    def __init__(self, seed: int, purpose: str, index: Tensor, device: torch.device | str | None = None) -> None:
        digest = hashlib.sha256(f"{purpose}\0{seed}".encode()).digest()
        start = int.from_bytes(digest[:8], "little", signed=True)
        self._keys = _mix(_mix(index.to(device or index.device, torch.int64) * _GOLDEN) + start)
        self._draws = 0

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def device(self) -> torch.device:
        """Where the numbers are made."""
        return self._keys.device

    def _bits(self, count: int) -> Tensor:
        """``(N, count)`` of 64 random bits each."""
        self._draws += 1
        draw = (self._draws * _SECOND + 2**63) % 2**64 - 2**63  # wraps as tensors do
        keys = _mix(self._keys + draw).unsqueeze(1)
        counter = torch.arange(count, device=self.device) * _GOLDEN
        return _mix(keys + counter)

    def _pairs(self, count: int) -> tuple[Tensor, Tensor]:
        """Two times ``(N, count)`` numbers of 24 bits, in the same pass."""
        bits = self._bits(count)
        return bits >> 40 & 0xFFFFFF, bits >> 8 & 0xFFFFFF

    def uniform(self, *shape: int) -> Tensor:
        """``(N, *shape)`` float32, even over ``[0, 1)`` in steps of 2^-24."""
        count = math.prod(shape)
        high, low = self._pairs((count + 1) // 2)
        return torch.cat([high, low], 1)[:, :count].reshape(len(self), *shape).float() * 2**-24

    def normal(self, *shape: int) -> Tensor:
        """``(N, *shape)`` float32 with mean 0 and deviation 1 (Box and Muller's way)."""
        count = math.prod(shape)
        high, low = self._pairs((count + 1) // 2)
        radius = ((high + 1).float() * 2**-24).log_().mul_(-2).sqrt_()
        angle = low.float() * (2 * math.pi * 2**-24)
        both = torch.cat([radius * angle.cos(), radius * angle.sin()], 1)
        return both[:, :count].reshape(len(self), *shape)

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """``(N, *shape)`` int64, even over ``low .. high - 1``, at most 2^24 apart."""
        count = math.prod(shape)
        first, second = self._pairs((count + 1) // 2)
        numbers = torch.cat([first, second], 1)[:, :count].reshape(len(self), *shape)
        return (numbers * (high - low) >> 24) + low


def indices(count: int, index: Tensor | None) -> Tensor:
    """The images' own numbers: `index` if given, else 0, 1, 2, ..."""
    if index is None:
        return torch.arange(count)
    if index.shape != (count,) or index.dtype != torch.int64:
        raise UserError(f"index must be int64 of shape ({count},), not {index.dtype} of {tuple(index.shape)}")
    return index


def _mix(value: Tensor) -> Tensor:
    """SplitMix64's finaliser; signed arithmetic wraps like unsigned, and a masked shift is a logical one."""
    value = (value ^ (value >> 30 & 0x3FFFFFFFF)) * _FIRST
    value = (value ^ (value >> 27 & 0x1FFFFFFFFF)) * _SECOND
    return value ^ (value >> 31 & 0x1FFFFFFFF)
