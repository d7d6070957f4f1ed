"""Instance norm: statistics of each channel of each image, for any number of positions."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

import xcnorm.functional as xf
from xcnorm.nn.norms.norm import Norm, register_norm
from xcnorm.ops.spec import full_precision

_SMALL = 256  # positions of a map, up to which torch's instance norm keeps few of a GPU's threads busy


class InstanceNorm(Norm):
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

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C, *positions)`` to the same shape."""
        if math.prod(input.shape[2:]) > 1:
            if input.device.type != "cpu" or input.dtype not in (torch.float32, torch.float64):
                return self._fused(input)
            # On a CPU torch's own takes several times as long, and forgets the memory format.
            input = xf.channel_norm(input, "instance", self.eps)
        return self.rescale(input)

    def _fused(self, input: Tensor) -> Tensor:
        """The same by torch's own kernels."""
        if math.prod(input.shape[2:]) > _SMALL:
            output = F.instance_norm(input, weight=self.weight, bias=self.bias, eps=self.eps)
        else:  # a group norm with one channel to a group is the same, and takes a third of the time there
            weight, bias = (part if part is None else part.to(input.dtype) for part in (self.weight, self.bias))
            with full_precision(input.device):  # autocast would make it float32; inside, it is anyway
                output = F.group_norm(input, self.channels, weight, bias, self.eps)
        # On a GPU both forget the memory format.
        return output if output.stride() == input.stride() else torch.empty_like(input).copy_(output)


@register_norm("instance", per_image=True)
def instance_norm(channels: int, positions: int, *, momentum: float, **settings: object) -> InstanceNorm:
    """An `InstanceNorm`, for any number of position axes but none."""
    return InstanceNorm(channels, **settings)  # type: ignore[arg-type]
