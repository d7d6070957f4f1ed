"""The scale c as a multiple of each patch's own deviation, which restores the invariance to gain."""

from __future__ import annotations

import torch
from torch import Tensor

from xcnorm.nn.reductions.reduction import RobustScale, register_reduction


@register_reduction("patch")
class PatchScale(RobustScale):
    """A fixed multiple."""

    initial = 3.0
    per_patch = True

    def forward(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """The multiple."""
        return torch.full((), self.c_init, dtype=dtype, device=device)
