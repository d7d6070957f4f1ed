"""What a backend is asked to compute, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Correlation:
    """One similarity between every patch of an input and every filter, without the data.

    A dense layer is the case without position axes: empty ``kernel``, ``stride`` and ``dilation``.

    Attributes:
        kernel: Kernel size, one number per position axis.
        stride: Step between patches.
        dilation: Step between the values of a patch.
        padding: Positions added before and after each axis, last axis first, as `torch.nn.functional.pad` takes it.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``. Whatever the mode, the patch that
            is normalised is the patch that is there.
        groups: The channels fall into this many groups with statistics and filters of their own.
        robust: Name of the robust function, or None for plain NCC.
        per_patch: Whether ``c`` is a multiple of each patch's own deviation instead of an absolute scale.
        channelwise: Whether each input channel of a patch is standardised on its own first.
        eps: Floor on the variance of a patch.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[int, ...] = ()
    padding_mode: str = "zeros"
    groups: int = 1
    robust: str | None = None
    per_patch: bool = False
    channelwise: bool = False
    eps: float = 1e-5

    def pad(self, input: Tensor) -> Tensor:
        """``(N, C, *sizes)`` with its padding."""
        if not any(self.padding):
            return input
        if self.padding_mode == "replicate" and torch.compiler.is_dynamo_compiling():
            return _replicate(input, self.padding)
        return F.pad(input, self.padding, mode="constant" if self.padding_mode == "zeros" else self.padding_mode)

    def outputs(self, sizes: torch.Size | tuple[int, ...]) -> tuple[int, ...]:
        """Sizes of the output's position axes for the sizes of the input's, before padding."""
        before, after = self.padding[-2::-2], self.padding[-1::-2]
        if not self.padding:
            return self.positions(sizes)
        return self.positions(tuple(size + b + a for size, b, a in zip(sizes, before, after, strict=True)))

    def positions(self, padded: torch.Size | tuple[int, ...]) -> tuple[int, ...]:
        """Sizes of the output's position axes for the sizes of the padded input's."""
        return tuple(
            (size - dilation * (kernel - 1) - 1) // stride + 1
            for size, kernel, stride, dilation in zip(padded, self.kernel, self.stride, self.dilation, strict=True)
        )


def _replicate(input: Tensor, padding: tuple[int, ...]) -> Tensor:
    """Padding by replication from slices: inductor expects wrong strides of the backward of torch's own operator."""
    for axis, (before, after) in enumerate(zip(padding[::2], padding[1::2], strict=True), start=1):
        first, last = input.narrow(-axis, 0, 1), input.narrow(-axis, input.shape[-axis] - 1, 1)
        input = torch.cat([*[first] * before, input, *[last] * after], -axis)
    return input


class Similarity(NamedTuple):
    """A backend's answer.

    Attributes:
        value: NCC or robust NCC, ``(N, C_out, *positions)``.
        norm: Norm of the centred patch, after phi if there is one, ``(N, groups, *positions)``.
        deviation: Standard deviation of the patch before phi, ``(N, groups, *positions)``.
    """

    value: Tensor
    norm: Tensor
    deviation: Tensor
