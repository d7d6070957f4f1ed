"""Shipped files: the presets and recipes that come with the package, as tables of TOML."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from xcnorm.errors import UserError

_FOLDER = files("xcnorm") / "presets"


@cache
def names(folder: str) -> tuple[str, ...]:
    """The names of the files in a folder; one that begins with an underscore is shared by the others."""
    found = (file.name.removesuffix(".toml") for file in (_FOLDER / folder).iterdir() if file.name.endswith(".toml"))
    return tuple(sorted(name for name in found if not name.startswith("_")))


def read(name: str) -> dict[str, Any]:
    """The content of a file, such as ``"recipes/fast"``."""
    return parse((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"), name)


def parse(text: str, name: str) -> dict[str, Any]:
    """The content of a text.

    Raises:
        UserError: It is not TOML.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{name} is not valid TOML: {error}") from error
