"""Adoption of files that the user has fetched by hand."""

from __future__ import annotations

import shutil
from pathlib import Path

from xcnorm.data.download.checks import check, is_web_page
from xcnorm.data.download.disk import arriving
from xcnorm.data.download.remote import RemoteFile
from xcnorm.errors import UserError


def adopt(file: RemoteFile, root: Path, folder: Path) -> Path:
    """Copy a file from a folder to its place below the data root, if it is the published one.

    Args:
        file: What is wanted.
        root: The folder that holds the data.
        folder: Where the user has put it, at its path below the data root or directly, by its name.

    Returns:
        Where it lies now.

    Raises:
        UserError: It is not in the folder, is not the published one, or cannot be written.
    """
    target = root / file.path
    places = (folder / file.path, folder / target.name)
    source = next((place for place in places if place.is_file()), None)
    if source is None:
        raise UserError(f"{folder} holds no {target.name}; put that file there, or name the folder that holds it")
    check(source, file)
    with source.open("rb") as head:
        if is_web_page(head.read(512)):
            raise UserError(f"{source} is a web page, not the file; fetch it again, in a browser if need be")
    if target.exists() and target.samefile(source):
        return target
    with source.open("rb") as original, arriving(target, source.stat().st_size) as handle:
        handle.truncate(0)  # of an interrupted download there may be a beginning
        shutil.copyfileobj(original, handle)
    return target
