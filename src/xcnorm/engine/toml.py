"""TOML from anybody: read within bounds, since a short text can ask for more memory than there is."""

from __future__ import annotations

import tomllib
from typing import Any

from xcnorm.errors import UserError

# Ours has a few thousand characters. A key of n parts takes memory like n squared, and stands in one line.
_LONGEST, _LONGEST_LINE, _DEEPEST = 1_000_000, 10_000, 20


def parse_toml(text: str, name: object) -> dict[str, Any]:
    """The values in a text.

    Args:
        text: The text.
        name: What to call it if it is refused.

    Raises:
        UserError: It is not TOML, or larger or deeper than such a file can be.
    """
    if len(text) > _LONGEST or any(len(line) > _LONGEST_LINE for line in text.splitlines()):
        raise UserError(
            f"{name} is too long, or a line of it is; such a file has at most {_LONGEST:,} characters, and a line "
            f"{_LONGEST_LINE:,}"
        )
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{name} is not valid TOML: {error}") from error
    level: list[Any] = [values]
    for _ in range(_DEEPEST):
        tables = [part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list)]
        level = [part for table in tables for part in table]
        if not level:
            return values
    raise UserError(f"{name} is nested too deeply; no setting is deeper than {_DEEPEST} tables and lists")
