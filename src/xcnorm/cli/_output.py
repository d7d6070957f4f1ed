"""How commands print: results go to stdout, for people or for programs; progress goes to stderr."""

import json
from collections.abc import Mapping
from typing import Annotated

import typer
from rich.console import Console

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def results() -> Console:
    """The console that results go to."""
    return Console(highlight=False)


def progress() -> Console:
    """The console that tells how it is going, out of the way of the results."""
    return Console(stderr=True, highlight=False)


def print_json(result: Mapping[str, object]) -> None:
    """Print a result for a program to read."""
    print(json.dumps(result, indent=2))
