"""Changes of what JSON and TOML stand for: a value of another type, a key too many or too few, two values swapped."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

_ODD = (0, -1, 3, 2**63, -(2**70), 1e308, 5e-324, math.nan, math.inf, -math.inf, 0.5, True, False, None)
_ODD_TEXTS = ("", "x", "none", "..", "../../x", "/", "\0", "\x1b[2J", "a\nb", "é" * 300, "0", "paper", "digits", "all")
_ODD_PARTS = ([], {}, [[]], [1, "a"], ["a", "a"], [0.5, 0.5, 0.5], {"a": {}}, {"": 1}, [{}], [None])


def parse(data: bytes) -> tuple[Any, Callable[[Any], str]]:
    """What bytes stand for, and what writes such a thing.

    Raises:
        ValueError: They are neither JSON nor TOML.
        RecursionError: They are nested too deep.
    """
    text = data.decode()
    try:
        return json.loads(text), json.dumps
    except ValueError:
        return tomllib.loads(text), to_toml


def restructured(data: bytes, random: Random) -> bytes:
    """The same bytes with some of what they stand for changed; the same if they stand for nothing."""
    try:
        values, write = parse(data)
        for _ in range(random.randint(1, 3)):
            values = _changed(values, random)
        return write(values).encode()
    except (ValueError, RecursionError):
        return data


def _changed(values: Any, random: Random) -> Any:
    places = list(_places(values))
    if not places or random.random() < 0.01:
        return _odd(random)
    inside, key = random.choice(places)
    kind = random.randrange(6)
    if kind == 0:
        del inside[key]
    elif kind == 1:
        other, there = random.choice(places)
        inside[key], other[there] = other[there], inside[key]  # one may hold the other; writing it then fails
    elif kind == 2:
        value = _odd(random)
        inside.append(value) if isinstance(inside, list) else inside.update({random.choice(_ODD_TEXTS): value})
    elif kind == 3:
        deep: Any = []
        for _ in range(random.choice((3, 100, 2000))):
            deep = [deep]
        inside[key] = deep
    else:
        inside[key] = _odd(random)
    return values


def _odd(random: Random) -> Any:
    chosen = random.choice((_ODD, _ODD_TEXTS, _ODD_PARTS))
    return json.loads(json.dumps(random.choice(chosen)))  # a copy


def _places(values: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(values) if isinstance(values, dict) else range(len(values)) if isinstance(values, list) else ()
    for key in keys:
        yield values, key
        yield from _places(values[key])


def to_toml(values: Any) -> str:
    """A table as TOML, in which all tables below are inline.

    Raises:
        ValueError: It is no table.
    """
    if not isinstance(values, dict):
        raise ValueError("not a table")
    return "".join(f"{_toml(str(key))} = {_toml(value)}\n" for key, value in values.items() if value is not None)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_toml(str(k))} = {_toml(v)}' for k, v in value.items() if v is not None)}}}"
    if isinstance(value, list):
        return f"[{', '.join(_toml(item) for item in value if item is not None)}]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value).replace("\x7f", "\\u007f") if isinstance(value, str | bool | int | float) else '"a date"'
