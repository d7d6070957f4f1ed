"""Group norm: statistics of 16 channels of an image together."""

from __future__ import annotations

from typing import Any

from torch import nn

from xcnorm.nn.norms.norm import register_norm

_GROUP_SIZE = 16


@register_norm("group")
def group_norm(channels: int, positions: int, *, momentum: float, **settings: Any) -> nn.Module:
    """Torch's group norm in groups of 16 channels, or in one where 16 does not divide them."""
    return nn.GroupNorm(channels // _GROUP_SIZE if channels % _GROUP_SIZE == 0 else 1, channels, **settings)
