"""What a conversion did, layer by layer, and why."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

# The attribute of a converted model that its report is kept in.
_ATTRIBUTE = "_xcnorm_conversion"


@dataclass(frozen=True)
class Change:
    """What happened to one layer of a model.

    Attributes:
        name: Its path in the model.
        before: Class it had.
        after: Class that is there now.
        action: ``"converted"``, ``"removed"`` or ``"kept"``.
        reason: Why, in words.
    """

    name: str
    before: str
    after: str
    action: str
    reason: str


@dataclass(frozen=True)
class ConversionReport:
    """Every layer of a converted model with what was done and why; ``print`` it."""

    changes: tuple[Change, ...]

    def count(self, action: str) -> int:
        """How many layers were ``"converted"``, ``"removed"`` or ``"kept"``."""
        return sum(change.action == action for change in self.changes)

    def __str__(self) -> str:
        rows = [("layer", "was", "is", "action", "why")]
        rows += [(c.name or "(model)", c.before, c.after, c.action, c.reason) for c in self.changes]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = ["  ".join([*(t.ljust(w) for t, w in zip(row, widths, strict=False)), row[4]]) for row in rows]
        summary = ", ".join(f"{self.count(action)} {action}" for action in ("converted", "removed", "kept"))
        return "\n".join([*lines, summary])


def attach_report(model: nn.Module, changes: tuple[Change, ...]) -> None:
    """Keep a report with its model, through copies and pickles."""
    model.__dict__[_ATTRIBUTE] = changes


def detach_report(model: nn.Module) -> None:
    """Forget a model's report, if it has one."""
    model.__dict__.pop(_ATTRIBUTE, None)


def conversion_report(model: nn.Module) -> ConversionReport:
    """What `convert` did to a model.

    Args:
        model: A model that `convert` returned.

    Raises:
        ValueError: The model was never converted.
    """
    changes = model.__dict__.get(_ATTRIBUTE)
    if changes is None:
        raise ValueError("this model was not converted; call xcnorm.convert(model) first")
    return ConversionReport(changes)
