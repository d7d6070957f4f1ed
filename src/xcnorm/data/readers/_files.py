"""Files read no further than they may be, and one line that says what is wrong with them."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

import numpy as np
import torch

from xcnorm.data.domain import LabelledImages
from xcnorm.errors import UserError, one_line

LARGEST = 2**31  # bytes of one array; no published file comes near it
_LARGEST_ARCHIVE = 2**30  # bytes of a whole archive, unpacked


def damaged(name: object, what: str) -> UserError:
    """The error to raise about a file that is not as its publisher made it.

    Args:
        name: The file.
        what: What is wrong with it, to be read after its name.
    """
    return UserError(f"{name} {what}; fetch it again")


def unreadable(name: object, error: Exception) -> UserError:
    """The error to raise where a decoder tripped over a file."""
    missing = "it ends too early" if isinstance(error, EOFError) else type(error).__name__
    reason = one_line(error) or missing
    return damaged(name, f"is damaged or not what it should be ({reason})")


@contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """Open a file, and say in one line that names it whatever goes wrong before it is closed.

    Raises:
        UserError: It cannot be opened, it is empty, or whoever decodes it raised anything at all.
    """
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise damaged(path, "is empty")
            yield file
    except UserError:
        raise
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist; fetch it, or check the path") from error
    except IsADirectoryError as error:
        raise UserError(f"{path} is a folder where a file is expected; check the path") from error
    except PermissionError as error:
        raise UserError(f"{path} may not be read; check its permissions") from error
    except Exception as error:  # decoders raise anything when they are fed a damaged file
        raise unreadable(path, error) from error


def is_folder(path: Path) -> bool:
    """Whether a path is a folder; a path that cannot be looked at is none."""
    try:
        return path.is_dir()
    except OSError:
        return False


def unpacked(file: BinaryIO) -> BinaryIO:
    """What a file holds, whether or not it is compressed with gzip."""
    compressed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    return cast(BinaryIO, gzip.GzipFile(fileobj=file)) if compressed else file


def bounded(stream: BinaryIO, limit: int, name: object) -> BinaryIO:
    """The same stream, but a `UserError` once it has given more than ``limit`` bytes."""
    return io.BufferedReader(_Bounded(stream, limit, name))


class _Bounded(io.RawIOBase):
    def __init__(self, stream: BinaryIO, limit: int, name: object) -> None:
        self._stream, self._left, self._name = stream, limit, name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        # Asked for gigabytes, a decompressor would first reserve them.
        data = self._stream.read(min(len(buffer), 1 << 20))
        self._left -= len(data)
        if self._left < 0:
            raise damaged(self._name, "unpacks to more than such a file can hold")
        buffer[: len(data)] = data
        return len(data)


def exactly(stream: BinaryIO, size: int, name: object) -> bytes:
    """Read ``size`` bytes, no fewer."""
    data = stream.read(size)
    if len(data) != size:
        raise damaged(name, f"is truncated: {size} bytes expected, {len(data)} found")
    return data


def contents(path: Path, top: str, wanted: Callable[[str], bool], most: int) -> Iterator[tuple[str, bytes]]:
    """Files of a folder, or of the ``.tar.gz`` it was published in, which is read as a stream.

    Args:
        path: The folder or the archive.
        top: The name of the folder inside the archive.
        wanted: Tells from a file's path below that folder whether to read it.
        most: The bytes that such a file may have.

    Yields:
        The path below the folder, and the bytes.
    """
    if is_folder(path):
        for folder, _, files in os.walk(path):
            for file in sorted(Path(folder, name) for name in files):
                inside = file.relative_to(path).as_posix()
                if wanted(inside):
                    with reading(file) as stream:
                        data = bounded(stream, most, file).read()
                    yield inside, data
        return
    with (
        reading(path) as packed,
        tarfile.open(fileobj=bounded(unpacked(packed), _LARGEST_ARCHIVE, path), mode="r|") as archive,
    ):
        for member in archive:
            first, *rest = PurePosixPath(member.name).parts or ("",)
            inside = "/".join(rest)
            if not member.isreg() or first != top or not wanted(inside):
                continue
            if member.size > most:
                raise damaged(f"{path}/{inside}", f"is larger than such a file can be ({member.size} bytes)")
            yield inside, exactly(cast(BinaryIO, archive.extractfile(member)), member.size, f"{path}/{inside}")


def labelled(name: object, images: np.ndarray, labels: np.ndarray, classes: int | None = None) -> LabelledImages:
    """Put images and labels together if they belong together.

    Args:
        name: The file that is named if they do not.
        images: ``(N, C, H, W)``, uint8; kept as it is, without a copy, if it can be written to.
        labels: ``(N,)``, integers.
        classes: How many classes there are, or None if any label from 0 on will do.
    """
    if not images.size:
        raise damaged(name, "holds no images")
    if labels.dtype.kind not in "iu" or labels.ndim != 1:
        raise damaged(name, f"has labels of type {labels.dtype} and shape {labels.shape}, not integers in a row")
    if len(labels) != len(images):
        raise damaged(name, f"has {len(labels)} labels for {len(images)} images")
    wrong = (labels < 0) | (labels >= (2**31 if classes is None else classes))
    if wrong.any():
        at = int(wrong.argmax())
        known = "from 0 on" if classes is None else f"0 to {classes - 1}"
        raise damaged(name, f"has label {labels[at]} at position {at}; labels are {known}")
    return LabelledImages(
        torch.from_numpy(np.require(images, requirements="W")), torch.from_numpy(labels.astype(np.int64))
    )
