"""Picture files as one tensor, decoded once: small sets in memory, large ones in a file that is mapped into memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from torch import Tensor

from xcnorm.data.bars import counting_bar
from xcnorm.data.decode import decode
from xcnorm.data.readers import read_picture
from xcnorm.folders import cache_root

LARGE = 2**28  # bytes; more than that is decoded once and for all, and not held in memory


def load_pictures(
    name: str, paths: Sequence[Path], *, pixels: int | None = None, witnesses: Iterable[Path] | None = None
) -> Tensor:
    """Decode pictures into ``(N, 3, H, W)``, uint8.

    A set of more than 256 MiB is decoded into a file in the cache folder and mapped from there; the next time it is
    only mapped.

    Args:
        name: What the bar and the file are called.
        paths: The pictures, in order.
        pixels: Height and width they are brought to; unless given, they must all have the same size.
        witnesses: The files whose size and date tell whether the decoded file is out of date; the pictures themselves
            unless given.

    Raises:
        UserError: A file is no picture, sizes differ, or the disk is full.
    """
    height, width = (pixels, pixels) if pixels else read_picture(paths[0]).shape[:2]
    out = None
    if len(paths) * height * width * 3 > LARGE:
        version = _version(paths if witnesses is None else witnesses)
        out = cache_root() / "decoded" / f"{name}-{version}.npy"
    with counting_bar(f"decoding {name}", len(paths)) as advance:
        return decode(paths, pixels=pixels, out=out, progress=advance)


def _version(witnesses: Iterable[Path]) -> str:
    """Changes when a file does; which pictures there are, and their size, is written in the decoded file itself."""
    digest = hashlib.sha256()
    for path in witnesses:
        status = path.stat()
        digest.update(f"{path.absolute()}\0{status.st_size} {status.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]
