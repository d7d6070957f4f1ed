"""Errors that a user must fix, told in one line."""

from collections.abc import Iterable
from difflib import get_close_matches

_MANY = 20  # more names than this are too many for one line
_SHOWN = 5


class UserError(ValueError):
    """Something the user must fix; the command line prints it as one line and exits with 2."""


def one_line(text: object, most: int = 200) -> str:
    r"""A text that may be anybody's, such as a library's complaint or a name in a file, fit for a message.

    Args:
        text: The text.
        most: How many characters of it are shown.

    Example:
        >>> one_line("it goes\n on")
        'it goes on'
        >>> one_line("\x1b[2J")
        '�[2J'
    """
    return printable(" ".join(str(text).split())[:most])


def unknown_name(kind: str, name: object, known: Iterable[str]) -> str:
    """Say in one line that a name is not known, which one may have been meant, and which ones there are.

    Args:
        kind: What is being named, such as `"model"`.
        name: The name that was given.
        known: The names that would have been right; of many, the nearest are shown.

    Example:
        >>> unknown_name("model", "resnet81", ["resnet18", "densenet121"])
        "unknown model 'resnet81'; did you mean 'resnet18'? (known: 'densenet121', 'resnet18')"
    """
    known, given = sorted(known), one_line(repr(name))
    near = get_close_matches(str(name), known, n=_SHOWN, cutoff=0.0)  # all of them are near enough to be listed
    hint = f"; did you mean {near[0]!r}?" if get_close_matches(str(name), near[:1]) else ""
    if len(known) <= _MANY:
        return f"unknown {kind} {given}{hint} (known: {', '.join(map(repr, known)) or 'none'})"
    return f"unknown {kind} {given}{hint} (near: {', '.join(map(repr, near))}; {len(known)} are known)"


def printable(text: str) -> str:
    r"""A name that somebody gave, without what no page can show and what would give a terminal orders.

    Example:
        >>> printable("a cat\x1b[2J")
        'a cat�[2J'
    """
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
