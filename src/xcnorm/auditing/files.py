"""Model files: programs of torch.export, if they hold nothing but operators and tensors, and ONNX files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export.passes import move_to_device_pass

from xcnorm.auditing.archive import extra_text, plain_copy
from xcnorm.auditing.subject import Subject
from xcnorm.errors import UserError
from xcnorm.extras import needed
from xcnorm.models import About


def open_exported(path: Path, name: str, device: torch.device) -> Subject:
    """A file of ``torch.export.save``. Only plain tensors are read from it.

    Args:
        path: The file.
        name: What the subject is called.
        device: Where it computes.

    Raises:
        UserError: It is damaged, holds a pickle or compiled code, or is no network of one picture.
    """
    copy = plain_copy(path)
    try:
        with tensors_only():
            program = torch.export.load(copy)
            module = move_to_device_pass(program, device).module(check_guards=False)  # guards are Python code
    except Exception as error:
        raise UserError(f"{path} cannot be read as a file of torch.export: {_first_line(error)}") from error
    inputs = [node for node in program.graph.nodes if node.name in program.graph_signature.user_inputs]
    if len(inputs) != 1 or getattr(inputs[0].meta.get("val"), "ndim", 0) != 4:
        raise UserError(f"{path} must take one batch of pictures, (N, C, H, W); export such a network")
    shape = inputs[0].meta["val"].shape
    subject = Subject(name, module, _hash(path), device, pixels=_fixed(shape[3]), batch=_fixed(shape[0]))
    return _informed(subject, extra_text(path, "xcnorm"), path)


def open_onnx(path: Path, name: str, device: torch.device) -> Subject:
    """An ONNX file, which onnxruntime (the extra ``audit``) runs on the CPU.

    Args:
        path: The file.
        name: What the subject is called.
        device: Not heeded.

    Raises:
        UserError: onnxruntime is missing, or the file is damaged or no network of one picture.
    """
    with needed("ONNX files", "audit"):
        import onnxruntime
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:
        raise UserError(f"{path} cannot be read as an ONNX file: {_first_line(error)}") from error
    inputs = session.get_inputs()
    if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type != "tensor(float)":
        raise UserError(f"{path} must take one batch of float32 pictures, (N, C, H, W); export such a network")

    def forward(pictures: Tensor) -> Any:
        return torch.from_numpy(session.run(None, {inputs[0].name: pictures.numpy()})[0])

    shape, key = inputs[0].shape, _hash(path)
    subject = Subject(name, forward, key, torch.device("cpu"), pixels=_fixed(shape[3]), batch=_fixed(shape[0]))
    return _informed(subject, session.get_modelmeta().custom_metadata_map.get("xcnorm"), path)


def _informed(subject: Subject, text: str | None, path: Path) -> Subject:
    """With what `xcnorm export` has written into the file."""
    return subject if text is None else subject.with_about(About.of(text, path), "the file's own")


@contextmanager
def tensors_only() -> Iterator[None]:
    """Within the block torch reads nothing but tensors from pickles, whatever a library asks for."""
    before = os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD")
    os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"]
        else:
            os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = before


def _fixed(length: object) -> int | None:
    """The length of an axis, where the file fixes it."""
    return length if type(length) is int else None


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
