"""What a reduction is: a module that knows the scale c, and learns from the deviations of the patches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, TypeVar

import torch
from torch import Tensor, nn

from xcnorm.registry import Registry


class RobustScale(nn.Module):
    """The scale c of the robust function. Subclasses are registered under the name that ``scale=`` of a layer takes.

    The paper calls c learnable and in the next sentence updates it as a moving average of the patches' standard
    deviation; both cannot be the rule, so both are offered. Both start from a large value.

    Args:
        c_init: Initial value of c, or of the multiple.
        eps: Floor on the variance of a patch.
        momentum: Weight of the newest batch in moving averages.
        device: Where buffers and parameters live.
        dtype: Their type.

    Attributes:
        name: What ``scale=`` calls it; set by `register_reduction`.
        initial: The default of ``c_init``.
        per_patch: Whether c is a multiple of each patch's own deviation, instead of an absolute scale.
        minimum: Of an absolute c: a smaller one would mean a deviation that counts as flat everywhere else.
    """

    name: ClassVar[str] = ""
    initial: ClassVar[float] = 10.0
    per_patch: ClassVar[bool] = False

    def __init__(
        self,
        c_init: float,
        *,
        eps: float = 1e-5,
        momentum: float = 0.1,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.c_init = c_init
        self.momentum = momentum
        self.minimum = 0.0 if self.per_patch else math.sqrt(eps)
        self.add_state(device, dtype)
        self.reset_parameters()

    def add_state(self, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        """Register parameters and buffers, if there are any."""

    def reset_parameters(self) -> None:
        """Set c to its initial value."""

    def forward(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """The c to use, a tensor of one element, in a dtype and on a device."""
        raise NotImplementedError

    @property
    def average(self) -> Tensor | None:
        """The buffer that follows the mean deviation of a batch's patches, where this step moves it."""
        return None

    def update(self, deviation: Tensor) -> None:
        """Called after every forward with the deviations of its patches, in any shape, without a gradient."""

    def extra_repr(self) -> str:
        """Arguments for ``repr``."""
        return f"c_init={self.c_init}"


REDUCTIONS: Registry[type[RobustScale]] = Registry("scale", "xcnorm.nn.reductions")

R = TypeVar("R", bound=type[RobustScale])


def register_reduction(name: str) -> Callable[[R], R]:
    """Make a class known as the reduction of that name."""

    def register(cls: R) -> R:
        REDUCTIONS.register(name, cls)
        cls.name = name
        return cls

    return register
