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
        parameters_before: How many numbers it learnt.
        parameters: How many what is there now learns.
        cost: Estimate of what a training step of a converted layer takes, as a multiple of the plain one with its norm
            and activation; None where nothing was measured.
    """

    name: str
    before: str
    after: str
    action: str
    reason: str
    parameters_before: int = 0
    parameters: int = 0
    cost: float | None = None


@dataclass(frozen=True)
class ConversionReport:
    """Every layer of a converted model with what was done and why; ``print`` it.

    Attributes:
        changes: A row for each layer.
        calibration: How near to the plain model it is, if it was calibrated, in words.
    """

    changes: tuple[Change, ...]
    calibration: str = ""

    def count(self, action: str) -> int:
        """How many layers were ``"converted"``, ``"removed"`` or ``"kept"``."""
        return sum(change.action == action for change in self.changes)

    def __str__(self) -> str:
        rows = [("layer", "was", "is", "action", "parameters", "cost", "why")]
        for c in self.changes:
            cost = "" if c.cost is None else f"{c.cost:.2f}x"
            rows.append((c.name or "(model)", c.before, c.after, c.action, _parameters(c), cost, c.reason))
        widths = [max(len(row[column]) for row in rows) for column in range(6)]
        lines = ["  ".join([*(t.ljust(w) for t, w in zip(row, widths, strict=False)), row[6]]) for row in rows]
        summary = ", ".join(f"{self.count(action)} {action}" for action in ("converted", "removed", "kept"))
        return "\n".join([*lines, summary, *filter(None, [self.calibration])])


def _parameters(change: Change) -> str:
    if change.parameters == change.parameters_before:
        return f"{change.parameters:,}" if change.parameters else ""
    return f"{change.parameters_before:,} to {change.parameters:,}"


def count_parameters(module: nn.Module) -> int:
    """How many numbers a module learns; those whose shape is not known yet count for nothing."""
    return sum(each.numel() for each in module.parameters() if not isinstance(each, nn.UninitializedParameter))


def attach_report(model: nn.Module, report: ConversionReport) -> None:
    """Keep a report with its model, through copies and pickles."""
    model.__dict__[_ATTRIBUTE] = report


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
    report: ConversionReport | None = model.__dict__.get(_ATTRIBUTE)
    if report is None:
        raise ValueError("this model was not converted; call xcnorm.convert(model) first")
    return report
