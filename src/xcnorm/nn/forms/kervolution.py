"""Kervolution: a kernel function of patch and filter in the place of their product."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from xcnorm.errors import unknown_name
from xcnorm.nn.forms.form import register_relative
from xcnorm.nn.forms.relative import Relative

_KERNELS = ("polynomial", "gaussian")


@register_relative("kervolution")
class KervolutionConv2d(Relative):
    """``(<z, w> + c)^d`` or ``exp(-gamma |z - w|^2)`` (Wang et al., 2019), with a learnt c or gamma.

    Args:
        *geometry: The arguments of `torch.nn.Conv2d`. A bias is added to the product ``<z, w>`` of either kernel.
        kernel: ``"polynomial"`` or ``"gaussian"``.
        power: The exponent d, an integer, which is not learnt.
        balance: What c starts at.
        gamma: What gamma starts at; None is one over the number of values in a patch.
        **rest: Further arguments of `torch.nn.Conv2d`.

    Attributes:
        constant: c of the polynomial.
        log_gamma: What gamma is learnt as.

    Example:
        >>> KervolutionConv2d(3, 8, 3, kernel="gaussian", bias=False)(torch.rand(1, 3, 8, 8)).max() <= 1
        tensor(True)
    """

    can_have_bias: ClassVar[bool] = True

    constant: nn.Parameter
    log_gamma: nn.Parameter

    def __init__(
        self,
        *geometry: Any,
        kernel: str = "polynomial",
        power: int = 3,
        balance: float = 2.0,
        gamma: float | None = None,
        **rest: Any,
    ) -> None:
        if kernel not in _KERNELS:
            raise ValueError(unknown_name("kernel", kernel, _KERNELS))
        if type(power) is not int or power < 1:
            raise ValueError(f"power must be an integer of at least 1, got {power!r}")
        if gamma is not None and not gamma > 0:
            raise ValueError(f"gamma must be above 0, got {gamma!r}")
        super().__init__(*geometry, **rest)
        self.kernel, self.power, self.balance = kernel, power, balance
        self.gamma = 1 / self.weight[0].numel() if gamma is None else gamma
        self.learn(**{"constant" if kernel == "polynomial" else "log_gamma": ()})

    def start(self) -> None:
        """The values that were given."""
        if self.kernel == "polynomial":
            nn.init.constant_(self.constant, self.balance)
        else:
            nn.init.constant_(self.log_gamma, math.log(self.gamma))

    def respond(self, input: Tensor) -> Tensor:
        """The kernel function of each patch and each filter."""
        if self.kernel == "polynomial":
            return (self._conv_forward(input, self.weight, self.bias) + self.constant).pow(self.power)
        products = self.correlate(input, self.weight)
        lengths = self.weight.square().flatten(1).sum(1).view(-1, 1, 1)
        squares = self.by_group(torch.add, lengths - 2 * products, self.patch_squares(input))
        squares = squares.clamp_min(0)  # of a patch that is the filter itself, rounding may leave less than nothing
        if self.bias is not None:
            squares = squares - 2 * self.bias.view(-1, 1, 1)
        return torch.exp(-self.log_gamma.exp() * squares)
