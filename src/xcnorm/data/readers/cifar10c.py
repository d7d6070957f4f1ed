"""CIFAR-10-C: one array per corruption, with the test images at severities 1 to 5 one after the other.

The arrays have 150 million bytes each, so they are mapped into memory where they lie, even inside the archive, and only
the pages that are looked at are read.
"""

from __future__ import annotations

import os
import tarfile
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from xcnorm.data.domain import LabelledImages
from xcnorm.data.readers._files import damaged, is_folder, labelled, reading
from xcnorm.data.readers._npy import read_header
from xcnorm.errors import UserError, unknown_name

_SEVERITIES = 5


class _Place(NamedTuple):
    """Where an array lies: the file, and the part of it if it is not the whole."""

    file: Path
    start: int = 0
    size: int | None = None


def list_cifar10c(path: Path) -> tuple[str, ...]:
    """The names of the corruptions that are there, in alphabetical order.

    Args:
        path: The folder ``CIFAR-10-C``, or ``CIFAR-10-C.tar``.

    Raises:
        UserError: The folder or file is missing or is something else.
    """
    return tuple(sorted(_places(path).keys() - {"labels"}))


def read_cifar10c(path: Path, name: str, severity: int) -> LabelledImages:
    """Read a corruption at a severity.

    Args:
        path: The folder ``CIFAR-10-C``, or ``CIFAR-10-C.tar``, which is not unpacked.
        name: One of `list_cifar10c`.
        severity: From 1 to 5.

    Returns:
        Images ``(N, 3, 32, 32)``, a view of the file in which changes are not written back, and their labels.

    Raises:
        UserError: A file is missing or damaged, or there is no such corruption or severity.
    """
    if severity not in range(1, _SEVERITIES + 1):
        raise UserError(f"severity is from 1 to {_SEVERITIES}, not {severity!r}")
    places = _places(path)
    if name not in places or name == "labels":
        raise UserError(unknown_name(f"corruption in {path}", name, places.keys() - {"labels"}))
    if "labels" not in places:
        raise UserError(f"{path} has no labels.npy; fetch it again")
    images, labels = _mapped(places[name], f"{path}/{name}.npy"), _mapped(places["labels"], f"{path}/labels.npy")
    if images.dtype != np.uint8 or images.shape[1:] != (32, 32, 3) or len(images) % _SEVERITIES or not len(images):
        raise damaged(f"{path}/{name}.npy", f"holds {images.dtype} of {images.shape}, not uint8 of (5 N, 32, 32, 3)")
    if labels.shape != images.shape[:1]:
        raise damaged(f"{path}/labels.npy", f"has labels of shape {labels.shape} for {len(images)} images")
    count = len(images) // _SEVERITIES
    rows = slice((severity - 1) * count, severity * count)
    return labelled(f"{path}/labels.npy", images[rows].transpose(0, 3, 1, 2), labels[rows], classes=10)


def _places(path: Path) -> dict[str, _Place]:
    if is_folder(path):
        return {file.stem: _Place(file) for file in path.glob("*.npy") if not file.name.startswith(".")}
    with reading(path) as file, tarfile.open(fileobj=file, mode="r:") as archive:
        members = {PurePosixPath(member.name): member for member in archive if member.isreg() and not member.issparse()}
    return {
        name.stem: _Place(path, member.offset_data, member.size)
        for name, member in members.items()
        if name.parent.name == "CIFAR-10-C" and name.suffix == ".npy" and not name.name.startswith(".")
    }


def _mapped(place: _Place, name: str) -> np.ndarray:
    with reading(place.file) as file:
        file.seek(place.start)
        size = os.fstat(file.fileno()).st_size if place.size is None else place.size
        header = read_header(file, size, name)
        # Copy on write: nobody can damage the file, and torch is content with memory that can be written to.
        return np.memmap(
            file, header.dtype, "c", offset=place.start + header.start, shape=header.shape, order=header.order
        )
