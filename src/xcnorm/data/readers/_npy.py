"""The header of numpy's ``.npy`` format: what an array will be, before any of it is read."""

from __future__ import annotations

import math
from typing import BinaryIO, Literal, NamedTuple

import numpy as np

from xcnorm.data.readers._files import LARGEST, damaged


class Header(NamedTuple):
    """Shape, type and order of an array, and where in the file it starts."""

    shape: tuple[int, ...]
    dtype: np.dtype
    order: Literal["C", "F"]
    start: int

    @property
    def size(self) -> int:
        """The bytes of the array."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(stream: BinaryIO, size: int, name: object) -> Header:
    """Read the header of an array, and check that the array fills the rest of the file.

    Args:
        stream: The file, from its first byte on.
        size: The length of the file.
        name: What to call it if it is refused.
    """
    begin = stream.tell()
    try:
        version = np.lib.format.read_magic(stream)
        parse = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, fortran, dtype = parse(stream)
    except (ValueError, KeyError, TypeError, EOFError) as error:
        raise damaged(name, "is not an array in numpy's format") from error
    header = Header(shape, dtype, "F" if fortran else "C", stream.tell() - begin)
    if dtype.hasobject:
        raise damaged(name, "holds Python objects, which are not loaded")
    if min(shape, default=0) < 0 or header.size >= LARGEST or header.size != size - header.start:
        raise damaged(name, f"has {size - header.start} bytes for an array of {dtype} and shape {shape}")
    return header
