"""CIFAR-10 in its Python version: five training batches and a test batch, each a pickle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xcnorm.data.domain import LabelledImages
from xcnorm.data.readers._files import contents, damaged, labelled
from xcnorm.data.readers.pickles import load_pickle
from xcnorm.errors import UserError

_LARGEST_BATCH = 2**26  # bytes; the published ones have 31 million


def read_cifar(path: Path, batches: Sequence[str]) -> LabelledImages:
    """Read batches of CIFAR-10.

    Args:
        path: The folder ``cifar-10-batches-py``, or ``cifar-10-python.tar.gz``, which is not unpacked.
        batches: Their names, such as ``["data_batch_1", "data_batch_2"]`` or ``["test_batch"]``.

    Returns:
        Images ``(N, 3, 32, 32)`` and their labels, batch after batch in the order asked for.

    Raises:
        UserError: The file or a batch is missing or damaged.
    """
    wanted = set(batches)
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for name, data in contents(path, "cifar-10-batches-py", wanted.__contains__, _LARGEST_BATCH):
        found[name] = _batch(data, f"{path}/{name}")
        if len(found) == len(wanted):
            break
    missing = [name for name in batches if name not in found]
    if missing or not found:
        raise UserError(
            f"{path} has no {' and no '.join(missing) or 'batches to read'}; fetch it again or ask for others"
        )
    images, labels = zip(*(found[name] for name in batches), strict=True)
    return labelled(path, np.concatenate(images), np.concatenate(labels), classes=10)


def _batch(data: bytes, name: str) -> tuple[np.ndarray, np.ndarray]:
    batch = load_pickle(data, name=name)
    if not isinstance(batch, dict) or not {"data", "labels"} <= batch.keys():
        raise damaged(name, "is not a batch of CIFAR-10: no 'data' and 'labels'")
    pixels, labels = batch["data"], batch["labels"]
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (3072,):
        raise damaged(name, "is not a batch of CIFAR-10: 'data' is not uint8 of (N, 3072)")
    if not isinstance(labels, list) or any(type(label) is not int or not 0 <= label < 10 for label in labels):
        raise damaged(name, "is not a batch of CIFAR-10: 'labels' is not a list of numbers from 0 to 9")
    if len(labels) != len(pixels):
        raise damaged(name, f"has {len(labels)} labels for {len(pixels)} images")
    return pixels.reshape(-1, 3, 32, 32), np.array(labels, np.int64)
