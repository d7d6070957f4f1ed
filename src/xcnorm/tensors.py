"""Files of tensors, with a digest of what was written, so that no bit of them changes unnoticed."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

_DIGEST = "sha256"  # its name in the file's metadata


def save_tensors(tensors: Mapping[str, Tensor], path: Path, beside: str = "") -> None:
    """Write a file of tensors.

    Args:
        tensors: What is written.
        path: The file.
        beside: A text that is kept elsewhere and belongs to them.

    Raises:
        OSError: The disk is full or cannot be written.
    """
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(plain, path, {_DIGEST: _digest(plain, beside)})
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))  # all that is left of the operating system's own error
        raise OSError(*((int(number[1]), os.strerror(int(number[1]))) if number else (str(error),))) from error


def load_tensors(path: Path, beside: str = "") -> dict[str, Tensor]:
    """Read a file of tensors. One without a digest, as earlier versions wrote them, is taken as it is.

    Args:
        path: The file.
        beside: The text that belongs to them.

    Raises:
        OSError: It cannot be read.
        ValueError: It is damaged.
    """
    path.open("rb").close()  # of a file that may not be read, the library says that it is not there
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 # it is no dict
            written = (file.metadata() or {}).get(_DIGEST)
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    if written is not None and written != _digest(tensors, beside):
        raise ValueError("its content is not what was written; the disk or the memory has changed it")
    return tensors


def _digest(tensors: Mapping[str, Tensor], beside: str) -> str:
    digest = hashlib.sha256(beside.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\0{name} {tensor.dtype} {tuple(tensor.shape)}\0".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
