"""What a channel norm is, and where all of them are known by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import torch
from torch import Tensor, nn

from xcnorm.registry import Registry


class Norm(nn.Module):
    """Base of the channel norms that torch does not have: a number of channels, an epsilon, a scale and a shift.

    Args:
        channels: Number of channels.
        affine: Whether a learnable scale and shift per channel follow.
        eps: Added to the variance inside the root.
        device: Where parameters and buffers live.
        dtype: Their type.

    Attributes:
        pools_batch: Whether it takes statistics of the whole batch in training.
    """

    pools_batch: ClassVar[bool] = False

    weight: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(
        self,
        channels: int,
        *,
        affine: bool = False,
        eps: float = 1e-5,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.channels = channels
        self.affine = affine
        self.eps = eps
        for name in ("weight", "bias"):
            value = nn.Parameter(torch.empty(channels, device=device, dtype=dtype)) if affine else None
            self.register_parameter(name, value)
        self.add_state(device, dtype)
        self.reset_parameters()

    def add_state(self, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        """Register parameters and buffers besides scale and shift, if there are any."""

    def reset_parameters(self) -> None:
        """Start from scale one and shift zero."""
        if self.weight is not None and self.bias is not None:
            nn.init.ones_(self.weight)
            nn.init.zeros_(self.bias)

    def rescale(self, input: Tensor) -> Tensor:
        """Scale and shift, if there are any."""
        if self.weight is None or self.bias is None:
            return input
        return input * per_channel(self.weight, input) + per_channel(self.bias, input)

    def extra_repr(self) -> str:
        """Arguments for ``repr``."""
        return f"{self.channels}, affine={self.affine}, eps={self.eps}"


def per_channel(values: Tensor, like: Tensor) -> Tensor:
    """``(C,)`` or ``(N, C)`` as it broadcasts over ``(N, C, *positions)``."""
    return values.view(*values.shape, *(1,) * (like.ndim - 2))


@dataclass(frozen=True)
class NormKind:
    """What is registered of a norm.

    Attributes:
        name: What ``norm=`` calls it.
        make: Makes one, of the arguments of `make_norm`.
        per_image: Whether it standardises each channel of each image, so that the mean of a map is about zero, and a
            dense layer, with one value per channel and image, cannot have it.
    """

    name: str
    make: Callable[..., nn.Module]
    per_image: bool = False


NORMS: Registry[NormKind] = Registry("norm", "xcnorm.nn.norms")
"""Every channel norm by name."""

M = TypeVar("M", bound=Callable[..., nn.Module])


def register_norm(name: str, *, per_image: bool = False) -> Callable[[M], M]:
    """Make a function known as the maker of the norm of that name; see `make_norm` for what it is called with.

    Args:
        name: What ``norm=`` calls it.
        per_image: Whether it standardises each channel of each image.
    """

    def register(make: M) -> M:
        NORMS.register(name, NormKind(name, make, per_image))
        return make

    return register


def make_norm(
    kind: str,
    channels: int,
    positions: int,
    *,
    affine: bool = False,
    eps: float = 1e-5,
    momentum: float = 0.1,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> nn.Module:
    """Make a channel norm by name.

    Args:
        kind: One of `NORMS`.
        channels: Number of channels.
        positions: Number of position axes, 0 for dense layers.
        affine: Whether a learnable scale and shift per channel follow.
        eps: Added to the variance inside the root.
        momentum: Weight of the newest batch in the moving averages of norms that have any.
        device: Where parameters and buffers live.
        dtype: Their type.

    Raises:
        UserError: The kind is unknown.

    Example:
        >>> make_norm("batch", 8, positions=2)
        BatchNorm2d(8, eps=1e-05, momentum=0.1, affine=False, bias=False, track_running_stats=True)
    """
    make = NORMS[kind].make
    where = {"device": device, "dtype": dtype}
    return make(channels, positions, affine=affine, eps=eps, momentum=momentum, **where)
