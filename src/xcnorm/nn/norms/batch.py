"""Batch norm: torch's, with moving averages in evaluation."""

from __future__ import annotations

from typing import Any

from torch import nn

from xcnorm.nn.norms.norm import register_norm


@register_norm("batch")
def batch_norm(channels: int, positions: int, **settings: Any) -> nn.Module:
    """Torch's batch norm, of the class that has so many position axes."""
    kind = (nn.BatchNorm1d, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[positions]
    return kind(channels, **settings)
