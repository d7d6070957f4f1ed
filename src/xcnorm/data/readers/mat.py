"""MATLAB 5 files as SVHN and SYN are published in: ``X`` with the pixels and ``y`` with the labels.

The format is a row of elements, each with a tag of type and size; the variables are elements that hold elements, mostly
compressed. It is read here by hand because that takes a page, and lets a variable be unpacked no further than the
dimensions at its beginning justify.
"""

from __future__ import annotations

import math
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from xcnorm.data.domain import LabelledImages
from xcnorm.data.readers._files import LARGEST, damaged, exactly, labelled, reading

_MATRIX, _COMPRESSED = 14, 15
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_NUMERIC_CLASSES = range(6, 16)  # double, single and the integers, as opposed to cells, text, structures, ...
_HEAD = 512  # bytes; flags, dimensions and name of a variable always fit


def read_mat(path: Path, classes: int = 10) -> LabelledImages:
    """Read SVHN or SYN.

    Args:
        path: Such as ``test_32x32.mat``.
        classes: How many classes there are. A label of this value means class 0, as SVHN writes the digit 0.

    Returns:
        Images ``(N, 3, 32, 32)`` and their labels.

    Raises:
        UserError: The file is missing, damaged, of another kind, or holds something else.
    """
    variables = _read_variables(path)
    for name in ("X", "y"):
        if name not in variables:
            raise damaged(path, f"has no variable {name!r}; it has: {', '.join(variables) or 'none'}")
    pixels, labels = variables["X"], variables["y"].ravel()
    if pixels.dtype != np.uint8 or pixels.ndim not in (3, 4) or pixels.shape[:3] != (32, 32, 3):
        raise damaged(path, f"has X of type {pixels.dtype} and shape {pixels.shape}, not uint8 of (32, 32, 3, N)")
    wrong = ~np.isin(labels, np.arange(classes + 1))
    if wrong.any():
        raise damaged(path, f"has label {labels[wrong][0]:g}; labels are whole numbers from 0 to {classes}")
    # MATLAB drops the last dimension of a single image.
    images = pixels.reshape(32, 32, 3, -1, order="F").transpose(3, 2, 0, 1)
    return labelled(path, np.ascontiguousarray(images), labels.astype(np.int64) % classes, classes)


def _read_variables(path: Path) -> dict[str, np.ndarray]:
    variables = {}
    with reading(path) as file:
        header = exactly(file, 128, path)
        order = {b"\x00\x01IM": "<", b"\x01\x00MI": ">"}.get(header[124:])
        if order is None:
            raise damaged(path, "is not a MATLAB 5 file")
        while tag := file.read(8):
            kind, size = struct.unpack(f"{order}II", tag)
            if kind not in (_MATRIX, _COMPRESSED):
                raise damaged(path, f"has an element of type {kind} where a variable is expected")
            body = exactly(file, size, path)
            element = _Element(body, compressed=True) if kind == _COMPRESSED else _Element(tag + body)
            if variable := _variable(element, order):
                variables[variable[0]] = variable[1]
    return variables


def _variable(element: _Element, order: str) -> tuple[str, np.ndarray] | None:
    """Name and value of a variable that is ``X`` or ``y``; raises whatever it likes if the element is damaged."""
    head = element.take(_HEAD)
    flags = _tag(head, _tag(head, 0, order).start, order)
    (matrix_class,) = struct.unpack_from(f"{order}I", head, flags.start)
    if matrix_class & 0xFF not in _NUMERIC_CLASSES:
        return None
    shape = _tag(head, flags.end, order)
    name = _tag(head, shape.end, order)
    text = head[name.start : name.start + name.size].decode("ascii")
    if text not in ("X", "y"):
        return None
    dimensions = struct.unpack_from(f"{order}{shape.size // 4}i", head, shape.start)
    data = _tag(head, name.end, order)
    dtype = np.dtype(order + _TYPES[data.kind])
    if min(dimensions) < 0 or math.prod(dimensions) * dtype.itemsize != data.size or data.size >= LARGEST:
        raise ValueError(f"{text} has dimensions {dimensions} but {data.size} bytes")
    body = element.take(data.end)
    if len(body) < data.start + data.size or not element.ended:
        raise ValueError(f"{text} is shorter or longer than it declares")
    values = np.frombuffer(body, dtype, math.prod(dimensions), data.start)
    return text, values.reshape(dimensions, order="F")


class _Element:
    """The bytes of an element, unpacked as far as they are asked for."""

    def __init__(self, data: bytes, *, compressed: bool = False) -> None:
        self._data, self._packed = (b"", data) if compressed else (data, b"")
        self._inflater = zlib.decompressobj() if compressed else None

    def take(self, size: int) -> bytes:
        """At most the first ``size`` bytes."""
        if self._inflater is not None and len(self._data) < size:
            self._data += self._inflater.decompress(self._packed, size - len(self._data))
            self._packed = self._inflater.unconsumed_tail
        return self._data[:size]

    @property
    def ended(self) -> bool:
        """Whether nothing more comes, and what came has the right checksum."""
        return self._inflater is None or (not self._inflater.decompress(self._packed, 1) and self._inflater.eof)


class _Tag(NamedTuple):
    kind: int
    start: int
    size: int
    end: int


def _tag(data: bytes, at: int, order: str) -> _Tag:
    """The tag at a position: type, where the data lies, and where the next tag is."""
    (word,) = struct.unpack_from(f"{order}I", data, at)
    if word >> 16:  # at most four bytes, packed into the tag itself
        return _Tag(word & 0xFFFF, at + 4, word >> 16, at + 8)
    (size,) = struct.unpack_from(f"{order}I", data, at + 4)
    return _Tag(word, at + 8, size, at + 8 + -(-size // 8) * 8)
