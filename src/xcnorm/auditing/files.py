"""Model files: programs of torch.export, if they hold nothing but operators and tensors, and ONNX files."""

from __future__ import annotations

import hashlib
import json
import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export.passes import move_to_device_pass

from xcnorm.auditing.subject import Subject
from xcnorm.errors import UserError
from xcnorm.extras import needed

# torch finds operators by their names in its own modules, and evaluates the expressions that sizes are.
_PLAIN = {
    "target": r"torch\.ops\.[a-z]\w*\.\w+(\.\w+)?|_operator\.[a-z]+|math\.[a-z]+|torch\.sym_\w+|torch\._sym_\w+",
    "expr_str": r"(?:[A-Z]\w*(?=[(,)]|$)|\'\w+\'|[a-z]+(?==)|True|False|-?\d+|(?<!\))\(|[=, )])*",
    "name": r"[\w.]*",
}


def open_exported(path: Path, name: str, device: torch.device) -> Subject:
    """A file of ``torch.export.save``. Only plain tensors are read from it.

    Args:
        path: The file.
        name: What the subject is called.
        device: Where it computes.

    Raises:
        UserError: It is damaged, holds a pickle or compiled code, or is no network of one picture.
    """
    _refuse_code(path)
    try:
        with tensors_only():
            program = torch.export.load(path)
            module = move_to_device_pass(program, device).module(check_guards=False)  # guards are Python code
    except Exception as error:
        raise UserError(f"{path} cannot be read as a file of torch.export: {_first_line(error)}") from error
    inputs = [node for node in program.graph.nodes if node.name in program.graph_signature.user_inputs]
    if len(inputs) != 1 or getattr(inputs[0].meta.get("val"), "ndim", 0) != 4:
        raise UserError(f"{path} must take one batch of pictures, (N, C, H, W); export such a network")
    shape = inputs[0].meta["val"].shape
    return Subject(name, module, _hash(path), device, pixels=_fixed(shape[3]), batch=_fixed(shape[0]))


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

    shape = inputs[0].shape
    return Subject(name, forward, _hash(path), torch.device("cpu"), pixels=_fixed(shape[3]), batch=_fixed(shape[0]))


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


def _refuse_code(path: Path) -> None:
    """Refuse an archive with anything in it that is more than a graph and tensors."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name.partition("/")[2] for name in archive.namelist()]
            kinds = [json.loads(archive.read(n)) for n in archive.namelist() if n.endswith("_config.json")]
            entries = [entry for kind in kinds for entry in kind["config"].values()]
            graphs = [json.loads(archive.read(n)) for n in archive.namelist() if re.search(r"/models/\w+\.json$", n)]
    except (OSError, ValueError, KeyError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} cannot be read as a file of torch.export: {_first_line(error)}") from error
    compiled = any(name.startswith("data/aotinductor") for name in names)
    legacy = any(name.startswith(("data/weights/", "data/constants/")) and name.endswith(".pt") for name in names)
    objects = any(e["use_pickle"] or not re.fullmatch(r"(weight|tensor)_\d+", e["path_name"]) for e in entries)
    if compiled or legacy or objects or not all(map(_is_plain, graphs)):
        raise UserError(
            f"{path} holds more than a graph and plain tensors, which could run any code when it is loaded; "
            "export the network again without it, or name a function that builds it: package.module:callable"
        )


def _is_plain(part: object) -> bool:
    """Whether a graph, or a part of one, calls torch's operators only and has names and sizes that are no code."""
    if isinstance(part, dict):
        spelt = all(
            re.fullmatch(_PLAIN[key], text) for key, text in part.items() if key in _PLAIN and isinstance(text, str)
        )
        return spelt and all(map(_is_plain, part.values()))
    return all(map(_is_plain, part)) if isinstance(part, list) else True


def _fixed(length: object) -> int | None:
    """The length of an axis, where the file fixes it."""
    return length if type(length) is int else None


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
