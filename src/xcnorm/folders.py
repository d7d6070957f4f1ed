"""Folders of the user, such as the one for what can be made again."""

from __future__ import annotations

import os
from pathlib import Path

from xcnorm.errors import UserError


def cache_root() -> Path:
    """The folder for what can be made again, such as decoded pictures.

    It is named by ``XCNORM_CACHE``; unless that is set, it is ``xcnorm`` below the user's cache folder.
    """
    return as_path(os.environ.get("XCNORM_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "xcnorm")


def as_path(chosen: Path | str) -> Path:
    """A folder as the user named it.

    Raises:
        UserError: It is below the home of somebody who has none.
    """
    try:
        return Path(chosen).expanduser()
    except RuntimeError as error:  # of whom there is no home
        raise UserError(f"{chosen} is nobody's folder; write the path in full") from error
