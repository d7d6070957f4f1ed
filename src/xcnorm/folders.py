"""Folders of the user: the one that holds the data, and the one for what can be made again."""

from __future__ import annotations

import os
from pathlib import Path

from xcnorm.errors import UserError


def cache_root() -> Path:
    """The folder for what can be made again, such as decoded pictures.

    It is named by ``XCNORM_CACHE``; unless that is set, it is ``xcnorm`` below the user's cache folder.
    """
    return _as_path(os.environ.get("XCNORM_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "xcnorm")


def data_root(given: Path | str | None = None) -> Path:
    """The folder that holds the data: the one given, else ``XCNORM_DATA``, else one below the cache folder."""
    return _as_path(given or os.environ.get("XCNORM_DATA") or cache_root() / "data")


def _as_path(chosen: Path | str) -> Path:
    try:
        return Path(chosen).expanduser()
    except RuntimeError as error:  # of whom there is no home
        raise UserError(f"{chosen} is nobody's folder; write the path in full") from error
