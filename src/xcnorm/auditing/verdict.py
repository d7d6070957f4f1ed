"""The verdict: what an audit has found about a model, in one paragraph."""

from __future__ import annotations

from xcnorm.auditing.result import Audit, AuditedModel

_SLIGHT = 0.02  # confidence and accuracy that differ by less are as good as equal


def verdict(audit: Audit, model: AuditedModel) -> str:
    """One paragraph about a model.

    Args:
        audit: The audit.
        model: One of its models.
    """
    groups, types = model.categories(audit.grouping), model.by_corruption
    weakest, strongest = min(groups, key=lambda n: groups[n]), max(types, key=lambda n: types[n])
    worst = min(types, key=lambda n: types[n])
    said = [
        f"{model.name} recognises {_percent(model.clean.accuracy)} of {audit.count:,} clean pictures, and "
        f"{_percent(model.corrupted)} when they are corrupted ({audit.types}; five severities): {_points(model.drop)}."
    ]
    if len(types) > 1:
        said.append(
            f"It is weakest under {_words(weakest)} ({_percent(groups[weakest])}), worst under {_words(worst)} "
            f"({_percent(types[worst])}) and best under {_words(strongest)} ({_percent(types[strongest])})."
        )
    said.append(_calibration(model))
    broken = sorted((c for c in model.classes if c.drop > 0), key=lambda scored: -scored.drop)[:3]
    if broken:
        each = ", ".join(f"{scored.name} ({_points(scored.drop)})" for scored in broken)
        said.append(f"The classes that lose most are {each}.")
    if model.mce is not None:
        said.append(f"Its mean corruption error against {audit.baseline} is {model.mce:.1f} %.")
    return " ".join(said)


def _calibration(model: AuditedModel) -> str:
    surplus = model.confidence - model.corrupted
    if surplus > _SLIGHT:
        manner = "too sure of itself"
    else:
        manner = "less sure than it could be" if surplus < -_SLIGHT else "about as sure as it is right"
    clean, corrupted = model.clean.calibration_error, model.calibration_error
    return (
        f"Under corruption it is {manner}: its mean confidence is {_percent(model.confidence)}, and its calibration "
        f"error {'grows' if corrupted >= clean else 'falls'} from {_percent(clean)} to {_percent(corrupted)}."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _points(drop: float) -> str:
    return f"a drop of {100 * drop:.1f} points" if drop >= 0 else f"a gain of {-100 * drop:.1f} points"


def _words(name: str) -> str:
    return name.replace("_", " ")
