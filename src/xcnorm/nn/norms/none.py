"""No norm at all."""

from __future__ import annotations

from typing import Any

from torch import nn

from xcnorm.nn.norms.norm import register_norm


@register_norm("none")
def no_norm(channels: int, positions: int, **settings: Any) -> nn.Module:
    """The identity."""
    return nn.Identity()
