"""B-cos: the product with a unit filter, turned down where the two are not aligned."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor

from xcnorm.nn.forms.form import register_relative
from xcnorm.nn.forms.relative import Relative, unit_filters

_EPS = 1e-6  # added to squared lengths, and to cosines before they are raised, as in the public code


@register_relative("bcos", norm="none", activation=False)
class BcosConv2d(Relative):
    """``|cos|^(B - 1) <z, w / |w|>`` (Boehle et al., 2022), scaled by ``scale / sqrt(alpha)``.

    alpha is the number of values in a patch. The fixed scale is that of the paper's networks, which have no norms; the
    second version of the public code has norms instead, and no scale. Maps that two or more filters compete for are
    MaxOut, as in the paper's smaller networks.

    Args:
        *geometry: The arguments of `torch.nn.Conv2d`; there is no bias.
        b: The exponent B, at least 1.
        max_out: Filters of which each channel takes the largest answer.
        scale: A fixed factor, or ``"none"``.
        **rest: Further arguments of `torch.nn.Conv2d`.

    Example:
        >>> BcosConv2d(3, 8, 3)(torch.rand(1, 3, 8, 8)).shape
        torch.Size([1, 8, 6, 6])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *geometry: Any,
        b: float = 2.0,
        max_out: int = 1,
        scale: float | Literal["none"] = 100.0,
        **rest: Any,
    ) -> None:
        if not b >= 1:
            raise ValueError(f"b must be at least 1, got {b!r}")
        if type(max_out) is not int or max_out < 1:
            raise ValueError(f"max_out must be an integer of at least 1, got {max_out!r}")
        _check_scale(scale)
        super().__init__(in_channels, out_channels, *geometry, **rest)
        self.b, self.max_out, self.scale = b, max_out, scale
        if max_out > 1:
            self.weight = torch.nn.Parameter(self.weight.detach().repeat_interleave(max_out, 0))
            self.reset_parameters()

    def respond(self, input: Tensor) -> Tensor:
        """The products, each turned down by the cosine that belongs to it."""
        output = self.correlate(input, unit_filters(self.weight, torch.finfo(self.weight.dtype).tiny))
        if self.max_out > 1:
            output = output.unflatten(1, (self.out_channels, self.max_out)).amax(2)
        if self.b != 1:
            cosine = self.by_group(torch.div, output, (self.patch_squares(input) + _EPS).sqrt()).abs()
            output = output * (cosine if self.b == 2 else (cosine + _EPS).pow(self.b - 1))
        return output if self.scale == "none" else output * (self.scale / math.sqrt(self.weight[0].numel()))


def _check_scale(scale: object) -> None:
    if scale != "none" and not (isinstance(scale, int | float) and scale > 0):
        raise ValueError(f"scale must be above 0 or 'none', got {scale!r}")
