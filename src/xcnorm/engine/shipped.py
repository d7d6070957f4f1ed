"""Shipped files: the presets and recipes that come with the package, as tables of TOML."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from xcnorm.engine.toml import parse_toml

_FOLDER = files("xcnorm") / "presets"


@cache
def names(folder: str) -> tuple[str, ...]:
    """The names of the files in a folder; one that begins with an underscore is shared by the others."""
    found = (file.name.removesuffix(".toml") for file in (_FOLDER / folder).iterdir() if file.name.endswith(".toml"))
    return tuple(sorted(name for name in found if not name.startswith("_")))


def read(name: str) -> dict[str, Any]:
    """The content of a file, such as ``"recipes/fast"``."""
    return parse_toml((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"), name)
