"""Where data lies: the folder the user keeps it in, and the folder for what is made from it."""

from __future__ import annotations

import os
from pathlib import Path

from xcnorm.folders import as_path, cache_root

__all__ = ["cache_root", "data_root"]


def data_root(given: Path | str | None = None) -> Path:
    """The folder that holds the data: the one given, else ``XCNORM_DATA``, else one below the user's cache folder."""
    return as_path(given or os.environ.get("XCNORM_DATA") or cache_root() / "data")
