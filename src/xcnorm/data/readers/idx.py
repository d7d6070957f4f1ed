"""The idx files of MNIST: a header of big-endian numbers, then one byte per pixel or label."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np

from xcnorm.data.domain import LabelledImages
from xcnorm.data.readers._files import LARGEST, damaged, exactly, labelled, reading, unpacked

_IMAGES, _LABELS = 2051, 2049  # the magic numbers: bytes in three dimensions, bytes in one
_KINDS = {_IMAGES: "images", _LABELS: "labels"}


def read_idx(images: Path, labels: Path) -> LabelledImages:
    """Read MNIST, or any other set of ten classes in its format.

    Args:
        images: Such as ``train-images-idx3-ubyte.gz``, compressed or not.
        labels: Such as ``train-labels-idx1-ubyte.gz``, compressed or not.

    Returns:
        Grey images ``(N, 1, H, W)`` and their labels.

    Raises:
        UserError: A file is missing, damaged or of another kind, or the two do not belong together.
    """
    pixels = _read(images, _IMAGES)
    return labelled(labels, pixels[:, np.newaxis], _read(labels, _LABELS), classes=10)


def _read(path: Path, magic: int) -> np.ndarray:
    with reading(path) as file:
        stream = unpacked(file)
        (found,) = struct.unpack(">I", exactly(stream, 4, path))
        if found != magic:
            held = f"holds {_KINDS[found]}" if found in _KINDS else "is no idx file"
            hint = " (are the two files swapped?)" if found in _KINDS else ""
            raise damaged(path, f"{held} where {_KINDS[magic]} are expected{hint}: magic number {found}, not {magic}")
        rank = magic & 0xFF
        shape = struct.unpack(f">{rank}I", exactly(stream, 4 * rank, path))
        size = math.prod(shape)
        if not 0 < size < LARGEST:
            raise damaged(path, f"declares {' x '.join(map(str, shape))} bytes, which cannot be")
        data = exactly(stream, size, path)
        if stream.read(1):
            raise damaged(path, f"goes on after the {' x '.join(map(str, shape))} bytes that it declares")
    return np.frombuffer(data, np.uint8).reshape(shape)
