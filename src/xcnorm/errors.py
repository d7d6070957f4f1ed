"""Errors that a user must fix, told in one line."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """Something the user must fix; the command line prints it as one line and exits with 2."""


def unknown_name(kind: str, name: object, known: Iterable[str]) -> str:
    """Say in one line that a name is not known, which one may have been meant, and which ones there are.

    Args:
        kind: What is being named, such as `"model"`.
        name: The name that was given.
        known: The names that would have been right.

    Example:
        >>> unknown_name("model", "resnet81", ["resnet18", "densenet121"])
        "unknown model 'resnet81'; did you mean 'resnet18'? (known: 'densenet121', 'resnet18')"
    """
    known = sorted(known)
    close = get_close_matches(str(name), known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"unknown {kind} {name!r}{hint} (known: {', '.join(map(repr, known)) or 'none'})"
