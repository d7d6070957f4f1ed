"""Extras: packages that not everybody needs, and the command that installs one where it is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xcnorm.errors import UserError


@contextmanager
def needed(whom: str, extra: str, kind: type[UserError] = UserError) -> Iterator[None]:
    """Import packages of an extra within the block, when they are needed and not before.

    Args:
        whom: What cannot do without them, in the plural, for the message.
        extra: The name of the extra.
        kind: What is raised.

    Raises:
        UserError: One of them is not installed.

    Example:
        >>> with needed("rainbows", "report"):
        ...     import colours_of_the_rainbow
        Traceback (most recent call last):
        xcnorm.errors.UserError: rainbows need a package that is missing (colours_of_the_rainbow); install it with: ...
    """
    try:
        yield
    except ImportError as error:
        raise kind(
            f'{whom} need a package that is missing ({error.name}); install it with: pip install "xcnorm[{extra}]"'
        ) from error
