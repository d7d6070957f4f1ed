"""Saved audits: reading an audit.json, of which nothing is taken on trust."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from xcnorm.auditing.result import FORMAT, Audit, AuditedModel, Scored, ScoredClass, Specimen
from xcnorm.data.corruptions.corruption import CORRUPTIONS
from xcnorm.data.grid import SEVERITIES
from xcnorm.errors import UserError, one_line

T = TypeVar("T")


def load_audit(path: Path | str) -> Audit:
    """Read an audit that was saved as JSON.

    Raises:
        UserError: It cannot be read, or is something else.
    """
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is no saved audit: {one_line(error)}; give the audit.json of an audit") from error
    try:
        if values["kind"] != "audit" or values["format"] != FORMAT:
            raise KeyError("format")
        audit = _audit(values)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UserError(f"{path} is no audit of this version; give the audit.json of an audit") from error
    for name in audit.corruptions:
        if name not in CORRUPTIONS:
            raise UserError(f"{path} is about the corruption {name[:80]!r}, which is not known here; load its plugin")
    return audit


def _audit(values: Mapping[str, Any]) -> Audit:
    names = ("data", "count", "constants", "seed", "baseline", "version")
    known = {"corruptions": tuple(values["corruptions"]), "models": tuple(map(_model, values["models"]))}
    audit = _made(Audit, {name: values[name] for name in names} | known | {"size": tuple(values["size"])})
    height, width = audit.size
    if not audit.corruptions or not audit.models or type(height) is not int or type(width) is not int:
        raise ValueError("it is about nothing")
    for model in audit.models:
        cells = {f"{name}/{severity}" for name in audit.corruptions for severity in SEVERITIES}
        if set(model.robustness) != set(audit.corruptions) or set(model.cells) != cells:
            raise ValueError("a model was not asked about every corruption")
    return audit


def _model(values: Mapping[str, Any]) -> AuditedModel:
    made = {
        "notes": tuple(map(_text, values["notes"])),
        "clean": _made(Scored, values["clean"]),
        "cells": {name: _made(Scored, scored) for name, scored in values["cells"].items()},
        "robustness": {name: _number(score) for name, score in values["robustness"].items()},
        "classes": tuple(_made(ScoredClass, scored) for scored in values["classes"]),
        "specimens": tuple(_made(Specimen, specimen) for specimen in values["specimens"]),
    }
    return _made(AuditedModel, {name: values[name] for name in ("name", "normalisation", "mce", "relative_mce")} | made)


def _made(cls: type[T], values: Mapping[str, Any]) -> T:
    """A dataclass whose texts and numbers are what it says they are."""
    checks = {str: _text, int: _count, float: _number, str | None: _text, float | None: _number}
    hints = get_type_hints(cls)
    for name, value in values.items():
        wanted = hints[name]
        optional = wanted in (str | None, float | None) and value is None
        if wanted in checks and not optional:
            checks[wanted](value)
    missing = [field.name for field in fields(cls) if field.name not in values]  # type: ignore[arg-type]  # T is one
    if missing:
        raise KeyError(missing[0])
    return cls(**values)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _count(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("not a whole number")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("not a number")
    return value
