"""USPS, the digits of zip codes: LIBSVM's text files and the HDF5 file."""

from __future__ import annotations

import bz2
import io
import math
from pathlib import Path

import numpy as np

from xcnorm.data.domain import LabelledImages
from xcnorm.data.readers._files import damaged, labelled, reading
from xcnorm.errors import UserError, unknown_name
from xcnorm.extras import needed

_LARGEST_TEXT = 2**26  # bytes; the published training set has about 20 million
_LONGEST_LINE = 2**14
_MOST_VALUES = 2**25  # pixels; the published training set has 1.9 million


def read_usps_libsvm(path: Path) -> LabelledImages:
    """Read LIBSVM's ``usps.bz2`` or ``usps.t.bz2``.

    Values from -1 to 1 become levels from 0 to 255, rounded down in single precision as torchvision does.

    Args:
        path: The file, compressed or not.

    Returns:
        Grey images ``(N, 1, 16, 16)`` and their labels.

    Raises:
        UserError: The file is missing, damaged or of another kind.
    """
    with reading(path) as file:
        data = file.read(_LARGEST_TEXT + 1)
        if len(data) > _LARGEST_TEXT:
            raise damaged(path, "is larger than USPS can be")
        text = _decompressed(data, path) if data.startswith(b"BZh") else data
    values, labels = [], []
    for number, line in enumerate(io.BytesIO(text), start=1):
        numbers = _numbers(line)
        if numbers is None:
            raise damaged(path, f"is not USPS in LIBSVM's format: line {number} is not like '7 1:-1 2:-0.5 ... 256:-1'")
        if numbers[0] not in range(1, 11):
            raise damaged(path, f"has label {numbers[0]:g} in line {number}; labels are 1 to 10")
        values.append(numbers[2::2].astype(np.float32))
        labels.append(int(numbers[0]) - 1)
    return _images(path, (np.stack(values) + 1) / 2, np.array(labels))


def _numbers(line: bytes) -> np.ndarray | None:
    """The label, 1, the first value, 2, the second value and so on; None if a line is anything else."""
    if len(line) > _LONGEST_LINE:
        return None
    try:
        numbers = np.array(line.replace(b":", b" ").split(), np.float64)
    except ValueError:
        return None
    return numbers if np.array_equal(numbers[1::2], np.arange(1, 257)) and numbers.size == 513 else None


def _decompressed(data: bytes, path: Path) -> bytes:
    text = b""
    while data:  # a file may hold several streams, one after the other; anything else after a stream is an error
        stream = bz2.BZ2Decompressor()
        text += stream.decompress(data, _LARGEST_TEXT + 1 - len(text))
        if len(text) > _LARGEST_TEXT:
            raise damaged(path, "unpacks to more than USPS can hold")
        if not stream.eof:
            raise damaged(path, "is truncated")
        data = stream.unused_data
    return text


def read_usps_h5(path: Path, part: str = "test") -> LabelledImages:
    """Read ``usps.h5``.

    Args:
        path: The file.
        part: ``"train"`` or ``"test"``.

    Returns:
        Grey images ``(N, 1, 16, 16)`` and their labels.

    Raises:
        UserError: The file is missing, damaged or of another kind, or h5py is not installed.
    """
    if part not in ("train", "test"):
        raise UserError(unknown_name("part", part, ("train", "test")))
    with needed(f"files such as {path}", "data"):
        import h5py
    with reading(path) as file, h5py.File(file, "r") as root:
        data, target = root[part]["data"], root[part]["target"]
        if any(one.is_virtual or one.external for one in (data, target)):
            raise damaged(path, f"takes {part} from other files")
        if data.dtype.kind != "f" or data.shape != (len(data), 256):
            raise damaged(path, f"has {part}/data of type {data.dtype} and shape {data.shape}, not floats of (N, 256)")
        if target.dtype.kind not in "iu" or target.shape != (len(data),):
            raise damaged(
                path, f"has {part}/target of type {target.dtype} and shape {target.shape}, not integers of (N,)"
            )
        # Compressed arrays are unpacked chunk by chunk, and a chunk may be larger than its array.
        if max(math.prod(size or ()) for size in (data.shape, data.chunks, target.chunks)) > _MOST_VALUES:
            raise damaged(path, f"has more in {part} than USPS can hold")
        values, labels = data[()], target[()]
    return _images(path, values.astype(np.float32), labels.astype(np.int64))


def _images(path: Path, values: np.ndarray, labels: np.ndarray) -> LabelledImages:
    """Images from values between 0 and 1."""
    if not ((values >= 0) & (values <= 1)).all():
        raise damaged(path, "has pixels outside the range of the format")
    levels = (values * np.float32(255)).astype(np.uint8)
    return labelled(path, levels.reshape(-1, 1, 16, 16), labels, classes=10)
