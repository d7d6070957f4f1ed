"""The scale c as a parameter."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xcnorm.functional.sharpen import inverse_softplus
from xcnorm.nn.reductions.reduction import RobustScale, register_reduction


@register_reduction("parameter")
class LearntScale(RobustScale):
    """A number that is learnt with the filters."""

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
