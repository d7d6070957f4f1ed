"""Labelled images in one ``.npz`` file, compact and without loss.

Grey images are stored as ``images`` ``(N, H, W)``. Coloured ones are stored as ``residual`` ``(N, 3, H, W)``: red and
blue minus green, then differences from pixel to pixel along both axes, all modulo 256. Most residuals are near zero and
compress better than the pixels would.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import torch
from torch import Tensor

from xcnorm.data.domain import LabelledImages
from xcnorm.data.readers._files import damaged, exactly, labelled, reading
from xcnorm.data.readers._npy import read_header
from xcnorm.errors import UserError, one_line
from xcnorm.files import disk_errors, replacing


def read_npz(path: Path) -> LabelledImages:
    """Read labelled images.

    Args:
        path: A file with ``labels`` ``(N,)`` and either ``residual`` as described above, or ``images``: uint8,
            ``(N, H, W)`` or ``(N, H, W, C)`` with one or three channels.

    Returns:
        Images ``(N, C, H, W)`` and their labels.

    Raises:
        UserError: The file is missing, damaged, or holds something else.
    """
    with _opened(path) as archive:
        if "residual" in archive.names:
            images = _decoded(archive.read("residual", np.uint8, "N 3 H W"))
        else:
            images = archive.read("images", np.uint8, "N H W", "N H W 1", "N H W 3")
            images = images[:, np.newaxis] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
        labels = archive.read("labels", np.integer, "N")
    return labelled(path, np.ascontiguousarray(images), labels)


def read_npz_array(path: Path, name: str) -> np.ndarray:
    """Read one array of a file, such as a number per image that says which group it belongs to.

    Args:
        path: The file.
        name: The array's name.

    Raises:
        UserError: The file is missing or damaged, or has no such array.
    """
    with _opened(path) as archive:
        return archive.read(name)


def read_pictures_npz(path: Path) -> dict[str, Tensor]:
    """Read pictures of different sizes, each an array ``(H, W, 3)``, uint8, of its own.

    Args:
        path: The file.

    Returns:
        For each array's name the picture as ``(3, H, W)``.

    Raises:
        UserError: The file is missing or damaged, or holds something else.
    """
    with _opened(path) as archive:
        if not archive.names:
            raise damaged(path, "holds no pictures")
        pictures = {name: archive.read(name, np.uint8, "H W 3") for name in archive.names}
    return {name: torch.from_numpy(picture).permute(2, 0, 1).contiguous() for name, picture in pictures.items()}


def write_npz(path: Path, images: Tensor, labels: Tensor) -> None:
    """Write labelled images for `read_npz`; a file of that name is replaced once the new one is complete.

    Args:
        path: The file to write.
        images: ``(N, C, H, W)``, uint8, with one or three channels.
        labels: ``(N,)``, int64, from 0 on.

    Raises:
        UserError: Images and labels are not as described above, or the file cannot be written.
    """
    if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] not in (1, 3):
        raise UserError(
            f"images to write must be uint8 of (N, 1 or 3, H, W), not {images.dtype} of {tuple(images.shape)}"
        )
    if labels.dtype != torch.int64 or labels.shape != images.shape[:1] or not len(labels) or labels.min() < 0:
        raise UserError(f"labels to write must be int64 of ({len(images)},) from 0 on, one per image, and at least one")
    pixels = images.cpu().numpy()
    arrays = {"images": pixels[:, 0]} if pixels.shape[1] == 1 else {"residual": _coded(pixels)}
    with disk_errors(path, "write it into another folder"), replacing(path) as part, part.open("xb") as file:
        np.savez_compressed(file, allow_pickle=False, labels=labels.cpu().numpy(), **arrays)


def _coded(pixels: np.ndarray) -> np.ndarray:
    coded = pixels.copy()
    coded[:, ::2] -= pixels[:, 1:2]
    for axis in (2, 3):
        coded = np.diff(coded, axis=axis, prepend=np.uint8(0))
    return coded


def _decoded(residual: np.ndarray) -> np.ndarray:
    sums = torch.from_numpy(residual)
    for axis in (2, 3):
        sums = sums.cumsum(axis, dtype=torch.uint8)  # five times as fast as numpy's
    pixels = sums.numpy()
    pixels[:, ::2] += pixels[:, 1:2]
    return pixels


class _Archive:
    """The arrays in an open file, of which nothing is unpacked before its header was read."""

    def __init__(self, path: Path, file: zipfile.ZipFile) -> None:
        self._path, self._file = path, file
        self.names = [name.removesuffix(".npy") for name in file.namelist()]

    def read(self, name: str, kind: type[Any] = np.generic, *shapes: str) -> np.ndarray:
        """Read an array.

        Args:
            name: Its name.
            kind: The type that it must have, or a family of types.
            shapes: The shapes that it may have, such as ``"N 3 H W"``: a letter is any length. Any shape unless given.
        """
        label = f"{self._path} ({one_line(name)})"
        if name not in self.names:
            known = one_line(", ".join(self.names)) or "none"
            raise UserError(f"{self._path} has no array {name!r}; it has: {known}")
        info = self._file.getinfo(f"{name}.npy")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            # The others are unpacked without a bound by the standard library, and numpy does not write them.
            raise damaged(label, "is compressed in a way that numpy does not use")
        with cast(BinaryIO, self._file.open(info)) as stream:
            header = read_header(stream, info.file_size, label)
            if not np.issubdtype(header.dtype, kind) or (shapes and not any(_fits(header.shape, s) for s in shapes)):
                wanted = " or ".join(f"({', '.join(shape.split())})" for shape in shapes)
                raise damaged(label, f"holds {header.dtype} of {header.shape}, not {kind.__name__} of {wanted}")
            data = exactly(stream, header.size, label)
            stream.read(1)  # at the end, and only there, the checksum is looked at
        return np.ndarray(header.shape, header.dtype, bytearray(data), order=header.order)


def _fits(shape: tuple[int, ...], pattern: str) -> bool:
    lengths = pattern.split()
    return len(shape) == len(lengths) and all(
        wanted.isalpha() or length == int(wanted) for length, wanted in zip(shape, lengths, strict=True)
    )


@contextmanager
def _opened(path: Path) -> Iterator[_Archive]:
    with reading(path) as file:
        file.seek(-22, os.SEEK_END)
        if file.read(4) != b"PK\x05\x06":  # the standard library would look for the end of the archive further up
            raise damaged(path, "is not an npz file, or a truncated one, or goes on after its end")
        with zipfile.ZipFile(file) as archive:
            yield _Archive(path, archive)
