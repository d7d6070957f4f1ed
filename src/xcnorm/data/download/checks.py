"""Checks that a file is the one that was published."""

from __future__ import annotations

import hashlib
import io
import os
from functools import partial
from pathlib import Path

from xcnorm.data.download.remote import RemoteFile
from xcnorm.errors import UserError


def check(path: Path, file: RemoteFile) -> None:
    """Compare a file on disk with what was published about it; where nothing was, any file will do.

    Args:
        path: Where the file lies.
        file: What it should be.

    Raises:
        UserError: It cannot be read, or its size or a checksum is another.
    """
    try:
        with path.open("rb") as handle:
            wrong = mismatch(handle, file)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; put the file there, or let it be read") from error
    if wrong is not None:
        raise UserError(f"{path} is damaged or another version: {wrong}; delete it and fetch it again")


def mismatch(handle: io.BufferedIOBase, file: RemoteFile) -> str | None:
    """What is wrong with an open file, in a few words, or None if it is the published one.

    Args:
        handle: Open for reading, with nothing left in its buffer.
        file: What it should be.
    """
    size = handle.seek(0, os.SEEK_END)
    if file.size not in (None, size):
        return f"it has {size:,} bytes, not {file.size:,}"
    for name, expected in (("md5", file.md5), ("sha256", file.sha256)):
        if expected is None:
            continue
        handle.seek(0)
        # MD5 finds accidents, which is what it is used for here; some systems forbid it for anything else.
        found = hashlib.file_digest(handle, partial(hashlib.new, name, usedforsecurity=False)).hexdigest()
        if found != expected.lower():
            return f"its {name} is {found}, not {expected.lower()}"
    return None


def is_web_page(head: bytes) -> bool:
    """Whether a file that begins like this is the page of a host that wants something first."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip().lower().startswith((b"<!doctype html", b"<html"))
