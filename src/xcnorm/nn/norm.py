"""Channel norms by name, for the last stage of an XCNorm layer and for plain networks alike."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import xcnorm.functional as xf
from xcnorm.errors import unknown_name
from xcnorm.ops.spec import full_precision

NORMS = ("batch", "instance", "group", "layer", "none")

_GROUP_SIZE = 16
_SMALL = 256  # positions of a map, up to which torch's instance norm keeps few of a GPU's threads busy


class InstanceNorm(nn.Module):
    """Standardise each channel of each image over its positions, for any number of position axes.

    Unlike torch's, it has a meaning on maps of a single position: one value has no spread to divide by and
    subtracting its mean would erase it, so there it passes through. Deep networks on small images end in such maps.

    Args:
        channels: Number of channels.
        affine: Whether a learnable scale and shift per channel follow.
        eps: Added to the variance inside the root.
        device: Where the parameters live.
        dtype: Their type.
    """

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
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start from scale one and shift zero."""
        if self.weight is not None and self.bias is not None:
            nn.init.ones_(self.weight)
            nn.init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C, *positions)`` to the same shape."""
        if input.shape[2:].numel() > 1:
            if input.device.type != "cpu" or input.dtype not in (torch.float32, torch.float64):
                return self._fused(input)
            # On a CPU torch's own takes several times as long, and forgets the memory format.
            input = xf.channel_norm(input, "instance", self.eps)
        if self.weight is None or self.bias is None:
            return input
        shape = (-1, *(1,) * (input.ndim - 2))
        return input * self.weight.view(shape) + self.bias.view(shape)

    def _fused(self, input: Tensor) -> Tensor:
        """By torch's own kernels."""
        if input.shape[2:].numel() > _SMALL:
            output = F.instance_norm(input, weight=self.weight, bias=self.bias, eps=self.eps)
        else:  # a group norm with one channel to a group is the same, and takes a third of the time there
            weight, bias = (part if part is None else part.to(input.dtype) for part in (self.weight, self.bias))
            with full_precision(input.device):  # autocast would make it float32; inside, it is anyway
                output = F.group_norm(input, self.channels, weight, bias, self.eps)
        # On a GPU both forget the memory format.
        return output if output.stride() == input.stride() else torch.empty_like(input).copy_(output)

    def extra_repr(self) -> str:
        """Arguments for ``repr``."""
        return f"{self.channels}, affine={self.affine}, eps={self.eps}"


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
        kind: ``"batch"`` (moving averages at evaluation), ``"instance"``, ``"group"`` (groups of 16 channels, one
            group where 16 does not divide them), ``"layer"`` (one group) or ``"none"``.
        channels: Number of channels.
        positions: Number of position axes, 0 for dense layers.
        affine: Whether a learnable scale and shift per channel follow.
        eps: Added to the variance inside the root.
        momentum: Weight of the newest batch in the moving averages of ``"batch"``.
        device: Where parameters and buffers live.
        dtype: Their type.

    Raises:
        ValueError: The kind is unknown.

    Example:
        >>> make_norm("batch", 8, positions=2)
        BatchNorm2d(8, eps=1e-05, momentum=0.1, affine=False, bias=False, track_running_stats=True)
    """
    if kind == "batch":
        batch_norm = (nn.BatchNorm1d, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[positions]
        return batch_norm(channels, eps=eps, momentum=momentum, affine=affine, device=device, dtype=dtype)
    if kind == "instance":
        return InstanceNorm(channels, affine=affine, eps=eps, device=device, dtype=dtype)
    if kind in ("group", "layer"):
        groups = channels // _GROUP_SIZE if kind == "group" and channels % _GROUP_SIZE == 0 else 1
        return nn.GroupNorm(groups, channels, eps=eps, affine=affine, device=device, dtype=dtype)
    if kind == "none":
        return nn.Identity()
    raise ValueError(unknown_name("norm", kind, NORMS))
