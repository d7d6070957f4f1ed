"""An entrance: something that is fed with bytes from a stranger, good ones to begin with, and what it may answer."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from xcnorm.errors import UserError


@dataclass(frozen=True)
class Entrance:
    """What is fuzzed.

    Attributes:
        seeds: Good inputs, which all others are made from.
        run: Is given bytes.
        tokens: Words of the format, to be put in anywhere.
        structured: Whether it is JSON or TOML, of which more than the bytes can be changed.
    """

    seeds: tuple[bytes, ...]
    run: Callable[[bytes], object]
    tokens: tuple[bytes, ...] = ()
    structured: bool = False


Prepared = Callable[[Path], Entrance]
"""Prepares an entrance in an empty folder of its own."""


def answer(entrance: Entrance, data: bytes) -> str | None:
    """Feed an entrance and return its complaint, if it has one.

    Raises:
        Exception: Anything but a `UserError` of one line that can be read at a glance: a crash.
    """
    with warnings.catch_warnings(action="ignore"):
        try:
            entrance.run(data)
        except UserError as error:
            message = str(error)
            assert "\n" not in message, f"more than one line: {message!r}"
            assert 0 < len(message) < 2000, f"{len(message)} characters: {message[:200]!r}"
            return message
    return None


def file(path: Path, read: Callable[[], object]) -> Callable[[bytes], object]:
    """Write bytes into a file, a new one each time, as the one before may be mapped, and read it."""

    def run(data: bytes) -> object:
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        return read()

    return run
