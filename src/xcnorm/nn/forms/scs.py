"""Sharpened cosine similarity: a cosine, raised to a learnt power, of patches that are not too faint."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xcnorm.functional.gain import initial_gain
from xcnorm.nn.forms.form import register_relative
from xcnorm.nn.forms.relative import Relative

_EPS = 1e-6
_SLOW_P, _FAST_Q = 5.0, 0.3  # what the logarithms are learnt in units of, as in the public code


class MaxAbsPool2d(nn.MaxPool2d):
    """The value of largest magnitude in each window, with its sign.

    Example:
        >>> MaxAbsPool2d(2)(torch.tensor([[[1.0, -3.0], [2.0, 0.0]]]))
        tensor([[[-3.]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        """``(..., H, W)`` to the pooled maps."""
        how = (self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)
        high, low = F.max_pool2d(input, *how), F.max_pool2d(-input, *how)
        return torch.where(high >= low, high, -low)


@register_relative("scs", norm="none", activation=False, max_pool=MaxAbsPool2d)
class SharpenedCosineConv2d(Relative):
    """``sign(<z, w>) (|<z, w>| / ((|z| + q) |w|))^p`` (Rohrer, 2022), with a p for each filter and one q.

    Args:
        *geometry: The arguments of `torch.nn.Conv2d`; there is no bias.
        p: What p starts at.
        q: What q starts at.
        gain: Whether one learnt factor follows, which starts so that the output has unit scale. The public code has it
            as an option; without it nothing is left of an image after some layers, as no norm comes in between.
        **rest: Further arguments of `torch.nn.Conv2d`.

    Attributes:
        raw_p: What p is learnt as: ``p = exp(raw_p / 5)``.
        raw_q: The same: ``q = exp(-raw_q / 0.3)``.
        gain: The factor.

    Example:
        >>> SharpenedCosineConv2d(3, 8, 3, gain=False)(torch.rand(1, 3, 8, 8)).abs().max() <= 1
        tensor(True)
    """

    raw_p: nn.Parameter
    raw_q: nn.Parameter
    gain: nn.Parameter | None

    def __init__(
        self, *geometry: Any, p: float = math.exp(0.7), q: float = math.exp(-1), gain: bool = True, **rest: Any
    ) -> None:
        for name, value in (("p", p), ("q", q)):
            if not value > 0:
                raise ValueError(f"{name} must be above 0, got {value!r}")
        super().__init__(*geometry, **rest)
        self.p, self.q = p, q
        self.register_parameter("gain", None)
        self.learn(raw_p=(self.out_channels,), raw_q=(), **({"gain": ()} if gain else {}))

    def start(self) -> None:
        """The values that were given."""
        nn.init.constant_(self.raw_p, math.log(self.p) * _SLOW_P)
        nn.init.constant_(self.raw_q, -math.log(self.q) * _FAST_Q)
        if self.gain is not None:
            nn.init.constant_(self.gain, initial_gain(self.weight[0].numel(), self.p))

    def respond(self, input: Tensor) -> Tensor:
        """The sharpened similarities."""
        power, floor = (self.raw_p / _SLOW_P).exp().view(-1, 1, 1), (-self.raw_q / _FAST_Q).exp()
        cosine = self.cosine(input, (self.patch_squares(input) + _EPS).sqrt() + floor, _EPS)
        output = cosine.sign() * (cosine.abs() + _EPS).pow(power)
        return output if self.gain is None else output * self.gain
