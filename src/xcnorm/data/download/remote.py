"""The remote file: where it can be fetched, and how it is recognised."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RemoteFile:
    """A file of a benchmark: where it lies below the data root, where it can be fetched, how it is recognised.

    Attributes:
        path: Where it lies below the data root, with forward slashes.
        urls: Where it can be fetched, best first; empty where a person has to fetch it.
        size: Its length in bytes, or None if nobody has published it.
        md5: Its MD5 checksum in hexadecimal, or None.
        sha256: Its SHA-256 checksum in hexadecimal, or None.
        unpacks_to: For an archive, a file or folder below the data root that is there once it is unpacked, into the
            folder where it lies; empty for a file that is read as it is.
        manual: What a person must do to get it where no program can; empty where one can.
    """

    path: str
    urls: tuple[str, ...] = ()
    size: int | None = None
    md5: str | None = None
    sha256: str | None = None
    unpacks_to: str = ""
    manual: str = ""
