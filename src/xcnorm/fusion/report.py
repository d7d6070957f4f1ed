"""What a fusion did, layer by layer, and why."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

# The attribute of a fused model that its report is kept in.
_ATTRIBUTE = "_xcnorm_fusion"


@dataclass(frozen=True)
class Fused:
    """What happened to one layer.

    Attributes:
        name: Its path in the model.
        kind: The class it had.
        folded: What became constants; nothing, if it stays as it was.
        reason: Why something of it stays.
    """

    name: str
    kind: str
    folded: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class FusionReport:
    """Every layer of a fused model that had something to fold, or might have; ``print`` it."""

    layers: tuple[Fused, ...]

    def __str__(self) -> str:
        rows = [("layer", "was", "folded", "stays")]
        rows += [(each.name or "(model)", each.kind, ", ".join(each.folded), each.reason) for each in self.layers]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = ["  ".join([*(t.ljust(w) for t, w in zip(row, widths, strict=False)), row[3]]).rstrip() for row in rows]
        folded = sum(bool(each.folded) for each in self.layers)
        return "\n".join([*lines, f"{folded} folded, {len(self.layers) - folded} as they were"])


def attach_report(model: nn.Module, layers: tuple[Fused, ...]) -> None:
    """Keep a report with its model."""
    model.__dict__[_ATTRIBUTE] = layers


def fusion_report(model: nn.Module) -> FusionReport:
    """What `fuse` did to a model.

    Args:
        model: A model that `fuse` returned.

    Raises:
        ValueError: The model was never fused.
    """
    if (layers := model.__dict__.get(_ATTRIBUTE)) is None:
        raise ValueError("this model was not fused; call xcnorm.fuse(model) first")
    return FusionReport(layers)
