"""Arguments that several commands take."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from xcnorm.errors import UserError

Data = Annotated[
    Path | None, typer.Option("--data", envvar="XCNORM_DATA", help="Folder that holds the data.", show_default=False)
]
Runs = Annotated[Path, typer.Option("--out", help="Folder of runs.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, such as schedule.iterations=120; repeatable."),
]


def parse_changes(changes: Iterable[str] | None) -> dict[str, Any]:
    """Nested values from ``KEY=VALUE``, where a value is a number, true, false, a list, or else a word.

    Raises:
        UserError: A change has no key or no value.
    """
    from xcnorm.engine.experiment import override

    dotted = {}
    for change in changes or ():
        key, equals, value = change.partition("=")
        if not key or not equals:
            raise UserError(f"--set takes KEY=VALUE, such as schedule.iterations=120, not {change!r}")
        try:
            dotted[key.strip()] = json.loads(value)
        except ValueError:
            dotted[key.strip()] = value
    return override(dotted)


def parse_numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    """Numbers between commas; None where there is no text.

    Raises:
        UserError: It is something else.
    """
    try:
        return None if text is None else tuple(float(number) for number in text.split(","))
    except ValueError as error:
        raise UserError(f"{option} takes numbers, such as 0.485,0.456,0.406, not {text!r}") from error
