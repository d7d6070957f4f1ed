"""Printing of commands: results go to stdout, for people or for programs; progress goes to stderr."""

import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from xcnorm.errors import printable

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def results(*, wide: bool = False) -> Console:
    """The console that results go to; if ``wide``, a file that they are redirected to is as wide as its tables."""
    console = Console(highlight=False)
    if wide and not console.is_terminal:
        console.width = 1000
    return console


def progress() -> Console:
    """The console that tells how it is going, out of the way of the results."""
    return Console(stderr=True, highlight=False)


def program() -> str:
    """What to type for this program here: its name, or where the shell would not find that, how it was called."""
    if shutil.which("xcnorm"):
        return "xcnorm"
    return sys.argv[0] if Path(sys.argv[0]).name == "xcnorm" else "python -m xcnorm"


def print_json(result: Mapping[str, object]) -> None:
    """Print a result for a program to read."""
    print(json.dumps(result, indent=2))


def print_table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table of texts whose first column names the rows, and whose others are numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(*header, title=title, title_justify="left", box=SIMPLE_HEAD)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(*map(printable, row))
    results(wide=True).print(table)
