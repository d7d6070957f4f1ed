"""MNIST-M: the original release of PNG files, and the later one for Keras without labels."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
from torch import Tensor

from xcnorm.data.domain import LabelledImages
from xcnorm.data.readers._files import bounded, contents, damaged, labelled, reading, unpacked
from xcnorm.data.readers.pickles import load_pickle
from xcnorm.data.readers.picture import decode
from xcnorm.errors import UserError, unknown_name

_LARGEST_FILE = 2**24  # bytes; the longest is the list of labels, of about a million
_LARGEST_PICKLE = 2**28  # bytes; the published one has 165 million


def read_mnist_m(path: Path, part: str = "test") -> LabelledImages:
    """Read the original release.

    Args:
        path: The folder ``mnist_m``, or ``mnist_m.tar.gz``, which is not unpacked.
        part: ``"train"`` or ``"test"``.

    Returns:
        Images ``(N, 3, 32, 32)`` and their labels, in the order of the list of labels.

    Raises:
        UserError: The file or one inside is missing or damaged, or list and pictures do not belong together.
    """
    if part not in ("train", "test"):
        raise UserError(unknown_name("part", part, ("train", "test")))
    listing = f"mnist_m_{part}_labels.txt"
    picture = re.compile(rf"mnist_m_{part}/(\d{{8}}\.png)")
    text, pictures = None, {}
    for name, data in contents(path, "mnist_m", lambda n: n == listing or bool(picture.fullmatch(n)), _LARGEST_FILE):
        if match := picture.fullmatch(name):
            pictures[match[1]] = _pixels(data, f"{path}/{name}")
        else:
            text = data
    if text is None:
        raise UserError(f"{path} has no {listing}; fetch it again, or check the path")
    names, labels = _parse(text, f"{path}/{listing}")
    for name in names:
        if name not in pictures:
            raise damaged(path, f"has no mnist_m_{part}/{name}, which {listing} lists")
    if len(names) != len(pictures):
        raise damaged(f"{path}/{listing}", f"has {len(names)} labels for {len(pictures)} pictures")
    return labelled(path, np.stack([pictures[name] for name in names]), np.array(labels, np.int64), classes=10)


def _pixels(data: bytes, name: str) -> np.ndarray:
    pixels = decode(io.BytesIO(data), name, most=32 * 32)
    if pixels.shape != (32, 32, 3):
        raise damaged(name, f"is a picture of {pixels.shape[1]} by {pixels.shape[0]} pixels, not of 32 by 32")
    return pixels.transpose(2, 0, 1)


def _parse(text: bytes, name: str) -> tuple[list[str], list[int]]:
    labels: dict[str, int] = {}
    for number, line in enumerate(text.decode("ascii", "replace").splitlines(), start=1):
        match = re.fullmatch(r"(\d{8}\.png) (\d)\s*", line)
        if not match or match[1] in labels:
            raise damaged(name, f"line {number} is not like '00000000.png 7', or names a picture again")
        labels[match[1]] = int(match[2])
    if not labels:
        raise damaged(name, "lists nothing")
    return list(labels), list(labels.values())


def read_mnist_m_keras(path: Path, labels: Tensor, part: str = "test") -> LabelledImages:
    """Read ``keras_mnistm.pkl.gz``, which has no labels because they are those of MNIST.

    Args:
        path: The file.
        labels: ``(N,)``, int64: MNIST's labels of the same part.
        part: ``"train"``, ``"valid"`` or ``"test"``.

    Returns:
        Images ``(N, 3, 28, 28)`` and the labels.

    Raises:
        UserError: The file is missing or damaged, or has another number of images than there are labels.
    """
    with reading(path) as file:
        stream = bounded(unpacked(file), _LARGEST_PICKLE, path)
        parts = load_pickle(stream, encoding="bytes", name=path)
    if not isinstance(parts, dict):
        raise damaged(path, "does not hold MNIST-M")
    if part.encode() not in parts:
        raise UserError(unknown_name(f"part of {path}", part, (key.decode() for key in parts if type(key) is bytes)))
    pixels = parts[part.encode()]
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (28, 28, 3):
        raise damaged(path, f"does not hold {part} as uint8 of (N, 28, 28, 3)")
    if len(labels) != len(pixels):
        raise UserError(
            f"{path} has {len(pixels)} images in {part}, not {len(labels)}; give the labels of the same part"
        )
    images = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
    return labelled(path, images, labels.cpu().numpy(), classes=10)
