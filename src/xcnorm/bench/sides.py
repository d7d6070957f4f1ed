"""Sides of a comparison: torch's own layers, and ours in both presets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from xcnorm.bench.shapes import LayerShape
from xcnorm.models.wiring import Wiring


@dataclass(frozen=True)
class Side:
    """What is measured beside something else.

    Args:
        name: As in tables.
        layer: The form, one of `xcnorm.nn.FORMS`.
        preset: Of an XCNorm layer; None for its own default.
        backend: Of an XCNorm layer; None for the one that fits.
    """

    name: str
    layer: str
    preset: str | None = None
    backend: str | None = None

    def options(self) -> dict[str, Any]:
        """Arguments of a network that is built of its layers."""
        options = {"layer": self.layer, "preset": self.preset, "backend": self.backend}
        return {name: value for name, value in options.items() if value is not None}


CONV = Side("conv", "conv")
"""Conv2d, BatchNorm2d and ReLU; or the network as published."""
OURS = (
    Side("xcnorm", "xcnorm"),
    Side("xcnorm paper", "xcnorm", "paper"),
    Side("r_xcnorm", "r_xcnorm"),
    Side("r_xcnorm paper", "r_xcnorm", "paper"),
)
SIDES = (CONV, *OURS)


def make(side: Side, shape: LayerShape, **options: Any) -> nn.Module:
    """The layer of a side, as our networks build theirs.

    Args:
        side: Which.
        shape: Its geometry.
        **options: Further options of an XCNorm layer.
    """
    wiring = Wiring(**(side.options() | options))
    size = (shape.channels_in, shape.channels_out, shape.kernel)
    return wiring.unit(*size, stride=shape.stride, padding=shape.padding, first=shape.first)
