"""The scale c of a robust function, and the reductions: the ways in which it is found."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xcnorm.functional.sharpen import inverse_softplus
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


REDUCTIONS: Registry[type[RobustScale]] = Registry("scale", "xcnorm.nn")

R = TypeVar("R", bound=type[RobustScale])


def register_reduction(name: str) -> Callable[[R], R]:
    """Make a class known as the reduction of that name."""

    def register(cls: R) -> R:
        REDUCTIONS.register(name, cls)
        cls.name = name
        return cls

    return register


@register_reduction("ema")
class MovingScale(RobustScale):
    """A c that is the moving average of the deviation of the training batches' patches."""

    running_c: Tensor

    def add_state(self, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        """One number. With one axis: torch's compiler loses updates of float64 buffers that have none."""
        self.register_buffer("running_c", torch.empty(1, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Set c to its initial value."""
        nn.init.constant_(self.running_c, self.c_init)

    def forward(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """The average so far."""
        # The clamp makes a copy: the buffer moves on in place while this value waits for its backward.
        return self.running_c[0].to(dtype).clamp_min(self.minimum)

    @property
    def average(self) -> Tensor | None:
        """The buffer, in training mode."""
        return self.running_c if self.training else None


@register_reduction("parameter")
class LearntScale(RobustScale):
    """A c that is learnt with the filters."""

    raw_c: nn.Parameter

    def add_state(self, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        """One number, before a softplus."""
        self.raw_c = nn.Parameter(torch.empty((), device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Set c to its initial value."""
        nn.init.constant_(self.raw_c, inverse_softplus(max(self.c_init - self.minimum, 1e-6)))

    def forward(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Above its minimum."""
        return F.softplus(self.raw_c).to(dtype) + self.minimum


@register_reduction("patch")
class PatchScale(RobustScale):
    """A fixed multiple of each patch's own deviation."""

    initial = 3.0
    per_patch = True

    def forward(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """The multiple."""
        return torch.full((), self.c_init, dtype=dtype, device=device)
