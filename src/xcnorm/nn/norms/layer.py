"""Layer norm: statistics of all channels of an image together."""

from __future__ import annotations

from typing import Any

from torch import nn

from xcnorm.nn.norms.norm import register_norm


@register_norm("layer")
def layer_norm(channels: int, positions: int, *, momentum: float, **settings: Any) -> nn.Module:
    """A group norm of one group."""
    return nn.GroupNorm(1, channels, **settings)
