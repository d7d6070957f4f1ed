"""Unpacking archives that need not be trusted."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, NamedTuple

from xcnorm.data.download.disk import REMEDY
from xcnorm.data.download.progress import Progress, silent
from xcnorm.data.staging import staging
from xcnorm.errors import UserError, one_line
from xcnorm.files import disk_errors

_CHUNK = 1 << 20
# Pictures hardly shrink, and even a drawing does not shrink this much; small archives may do as they like.
_ABSURD_RATIO = 200
_SMALL = 64 << 20
# What the standard library raises on archives that are broken, by accident or by intent.
_BROKEN = (
    EOFError,
    OverflowError,
    RuntimeError,  # encrypted, of an unknown compression, or headers nested without end
    ValueError,
    lzma.LZMAError,
    struct.error,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


def unpack(
    archive: Path,
    root: Path,
    *,
    limit_bytes: int = 100 << 30,
    limit_members: int = 2_000_000,
    progress: Progress = silent,
) -> None:
    """Unpack a tar (plain, gzip, bzip2 or xz) or zip archive, all of it or nothing.

    It is unpacked into a temporary folder in `root` and moved from there when it is complete. Files that are already
    there are replaced; permissions and times are those of new files. The whole archive is refused if one member is a
    link, a device, given twice, or named so that it would lie elsewhere.

    Args:
        archive: The archive.
        root: The folder to unpack into.
        limit_bytes: What it may unpack to, the headers of a tar included.
        limit_members: How many files and folders it may hold.
        progress: Is told how much of the archive has been read.

    Raises:
        UserError: It is missing, refused, damaged or cut short, or cannot be written.
    """
    if not archive.is_file():
        raise UserError(f"{archive} is not there; fetch it first")
    busy = f"{archive} is being unpacked by another process; wait until that has finished"
    with disk_errors(root, REMEDY):
        try:
            with staging(root / archive.name, busy) as staged, archive.open("rb") as handle:
                _extract(handle, staged, root, limit_bytes, limit_members, progress)
                _move(staged, root)
        except _RefusedError as error:
            reason = one_line(error)
            raise UserError(f"{archive} is refused, nothing was unpacked: {reason}; get it from elsewhere") from error
        except (*_BROKEN, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # the disk; gzip and bzip2 give no number
                raise
            reason = one_line(error)
            raise UserError(
                f"{archive} is damaged, cut short or no archive ({reason}); delete it and fetch it again"
            ) from error


class _RefusedError(Exception):
    """Something in the archive should not be there."""


class _Member(NamedTuple):
    """What is asked of a member of any archive.

    Attributes:
        name: Its path as written in the archive.
        kind: ``"file"``, ``"folder"``, or what else it is.
        size: Its length in bytes, as declared.
        open: Opens it for reading.
    """

    name: str
    kind: str
    size: int
    open: Callable[[], IO[bytes]]


def _extract(
    handle: io.BufferedReader, staged: Path, root: Path, limit_bytes: int, limit_members: int, progress: Progress
) -> None:
    size = handle.seek(0, os.SEEK_END)
    handle.seek(0)
    zipped = handle.read(4) in (b"PK\3\4", b"PK\5\6")
    handle.seek(0)
    left = limit_bytes
    for count, member in enumerate(_zip_members(handle, size) if zipped else _tar_members(handle, limit_bytes), 1):
        if count > limit_members:
            raise _RefusedError(f"it holds more than {limit_members:,} members")
        if member.size > left:
            raise _RefusedError(f"{member.name!r} takes it beyond {limit_bytes:,} bytes")
        parts = _parts(member)
        _check_place(root, parts, member)
        left -= _write(member, staged.joinpath(*parts), left, lambda: progress(handle.tell(), size))


def _parts(member: _Member) -> tuple[str, ...]:
    """The member's path in parts, if it lies below the folder it is unpacked into on every operating system."""
    if member.kind not in ("file", "folder"):
        raise _RefusedError(f"{member.name!r} is {member.kind}")
    path = PureWindowsPath(member.name)
    if path.anchor or ".." in path.parts or "\\" in member.name:
        raise _RefusedError(f"{member.name!r} would lie outside the folder, or does on some systems")
    parts = PurePosixPath(member.name).parts
    if not parts and member.kind == "file":
        raise _RefusedError("it holds a file without a name")
    return parts


def _check_place(root: Path, parts: tuple[str, ...], member: _Member) -> None:
    """Refuse to write through a link that is already there, and to replace a folder by a file or a file by a folder."""
    place = root
    for depth, part in enumerate(parts, 1):
        place /= part
        if place.is_symlink():
            raise _RefusedError(f"{member.name!r} would be written through the link {place}")
        if not place.exists():
            return
        folder = depth < len(parts) or member.kind == "folder"
        if folder != place.is_dir():
            raise _RefusedError(f"{member.name!r} and {place} are a file and a folder of one name")


def _write(member: _Member, target: Path, limit: int, tell: Callable[[], None]) -> int:
    """Write a member to its place and return its length; the declared one is not trusted."""
    try:
        if member.kind == "folder":
            target.mkdir(parents=True, exist_ok=True)
            return 0
        target.parent.mkdir(parents=True, exist_ok=True)
        sink = target.open("xb")
    except (FileExistsError, NotADirectoryError) as error:
        raise _RefusedError(f"{member.name!r} is there twice, or as a file and as a folder") from error
    written = 0
    with sink, member.open() as source:
        while chunk := source.read(_CHUNK):
            written += len(chunk)
            if written > limit:
                raise _RefusedError(f"{member.name!r} is longer than it says, and too long")
            sink.write(chunk)
            tell()
    if written != member.size:
        raise EOFError(f"{member.name!r} has {written:,} bytes, not {member.size:,}")
    return written


def _move(staged: Path, root: Path) -> None:
    """Move what was unpacked into place; only a folder that is there already is gone through file by file."""
    for entry in staged.iterdir():
        place = root / entry.name
        if entry.is_dir() and place.is_dir():
            _move(entry, place)
        else:
            entry.replace(place)


def _zip_members(handle: io.BufferedReader, size: int) -> Iterator[_Member]:
    with zipfile.ZipFile(handle) as archive:
        declared = sum(info.file_size for info in archive.infolist())
        if declared > _SMALL + _ABSURD_RATIO * size:
            raise _RefusedError(f"its {size:,} bytes would become {declared:,}")
        for info in archive.infolist():
            yield _Member(info.filename, _zip_kind(info), info.file_size, partial(archive.open, info))


def _zip_kind(info: zipfile.ZipInfo) -> str:
    mode = info.external_attr >> 16  # of the file on the system it comes from; 0 if that has none
    if stat.S_ISLNK(mode):
        return "a link"
    if info.filename.endswith("/"):
        return "folder"
    return "file" if stat.S_IFMT(mode) in (0, stat.S_IFREG) else "neither file nor folder"


def _tar_members(handle: io.BufferedReader, limit: int) -> Iterator[_Member]:
    stream = _Stream(_decompressed(handle), limit)
    with tarfile.open(fileobj=stream, mode="r:") as archive:
        while (info := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined] # hundreds of thousands would be remembered
            yield _Member(info.name, _tar_kind(info), info.size, partial(tarfile.ExFileObject, archive, info))
    # tarfile takes anything that is no header for the end of the archive; the real end is a block of zeros.
    if stream.last != bytes(tarfile.BLOCKSIZE):
        raise EOFError("its end is missing")
    while stream.read(_CHUNK):  # compressors put their checksum last
        pass


def _tar_kind(info: tarfile.TarInfo) -> str:
    if info.issym() or info.islnk():
        return "a link"
    if info.isdir():
        return "folder"
    return "file" if info.isreg() and not info.issparse() else "neither file nor folder"


def _decompressed(handle: io.BufferedReader) -> io.BufferedIOBase:
    magic = handle.read(6)
    handle.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=handle)
    if magic.startswith(b"BZh"):
        return bz2.BZ2File(handle)
    if magic == b"\xfd7zXZ\0":
        return lzma.LZMAFile(handle)
    return handle


class _Stream(io.RawIOBase):
    """A tar as tarfile reads it, from front to back: never more than the limit, and no monstrous header.

    Attributes:
        last: What was read last.
    """

    def __init__(self, source: io.BufferedIOBase, limit: int) -> None:
        self._source = source
        self._limit = limit
        self._position = 0
        self.last = b""

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _CHUNK:  # tarfile reads a header's extension in one piece, however long it claims to be
            raise _RefusedError("it has a header that is far too long")
        self.last = self._source.read(size)
        self._position += len(self.last)
        if self._position > self._limit:
            raise _RefusedError(f"it unpacks to more than {self._limit:,} bytes")
        return self.last

    def tell(self) -> int:
        return self._position

    def seek(self, position: int, whence: int = 0) -> int:  # forward only, which is all that tarfile needs
        while self._position < position and self.read(min(_CHUNK, position - self._position)):
            pass
        return self._position
