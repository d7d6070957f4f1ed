"""Checkpoints: all that a run needs to go on, written whole or not at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from xcnorm.errors import UserError
from xcnorm.files import disk_errors, replacing
from xcnorm.tensors import load_tensors, save_tensors

KEPT = 2  # the newest, and one before it in case the disk loses that
REMEDY = "choose another --out, and run the same command again"


def save_checkpoint(folder: Path, step: int, state: Mapping[str, Any]) -> None:
    """Write a checkpoint, and delete all but the two newest.

    Args:
        folder: The folder of checkpoints.
        step: The number of training steps done.
        state: Nested dicts and lists of tensors, numbers, strings, truths and None.

    Raises:
        UserError: The disk is full or cannot be written.
    """
    target = folder / f"step-{step:09d}"
    tensors: dict[str, Tensor] = {}
    skeleton = json.dumps(_take_apart(state, "", tensors))
    with disk_errors(f"the checkpoint {target}", REMEDY):
        for part in folder.glob(".*part"):  # of a process that was killed
            shutil.rmtree(part)
        with replacing(target) as part:
            part.mkdir()
            save_tensors(tensors, part / "tensors.safetensors", skeleton)
            (part / "state.json").write_text(skeleton, encoding="utf-8")
        # A later step than this one was there but could not be read, or the run would have gone on from it.
        found = sorted(folder.glob("step-*"))
        kept = [path for path in found if path <= target][-KEPT:]
        for path in found:
            if path not in kept:
                shutil.rmtree(path)


def load_checkpoint(
    folder: Path, notify: Callable[[str], None] = lambda text: None
) -> tuple[int, dict[str, Any]] | None:
    """The newest checkpoint that is whole: the number of steps and the state. None if there is none.

    Its tensors are on the CPU; whoever loads them into a network or an optimiser moves them to the right place.

    Args:
        folder: The folder of checkpoints.
        notify: Is told in words of those that are damaged.

    Raises:
        UserError: There is one that may not be read.
    """
    try:
        found = sorted((path for path in folder.iterdir() if path.name.startswith("step-")), reverse=True)
        for path in found:
            try:
                skeleton = (path / "state.json").read_text(encoding="utf-8")
                tensors = load_tensors(path / "tensors.safetensors", skeleton)
                return int(path.name.removeprefix("step-")), _put_together(json.loads(skeleton), tensors)
            except PermissionError:
                raise
            except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
                # The disk lost it; there is one before it.
                notify(f"the checkpoint {path} is damaged and not used: {getattr(error, 'strerror', None) or error}")
    except FileNotFoundError:
        return None
    except PermissionError as error:  # to begin anew would delete what is there
        raise UserError(f"cannot read {error.filename}: {error.strerror}; give yourself the right to") from error
    return None


def _take_apart(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """Move tensors out of nested values and leave their names."""
    if isinstance(value, Tensor):
        # A number: "a/b" may be one key or two. A copy: two names may share one memory, which the format refuses.
        unique = f"{len(tensors)}{name}"
        tensors[unique] = value.detach().clone(memory_format=torch.contiguous_format)
        return {"tensor": unique}
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, (str, int)):
                raise TypeError(f"a checkpoint cannot hold a key that is a {type(key).__name__} ({name})")
        return {"items": [[key, _take_apart(item, f"{name}/{key}", tensors)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        parts = [_take_apart(item, f"{name}/{place}", tensors) for place, item in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": parts}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a checkpoint cannot hold {type(value).__name__} ({name})")


def _put_together(skeleton: Any, tensors: Mapping[str, Tensor]) -> Any:
    if not isinstance(skeleton, dict):
        return skeleton
    ((kind, content),) = skeleton.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "items":
        return {key: _put_together(item, tensors) for key, item in content}
    parts = [_put_together(item, tensors) for item in content]
    return tuple(parts) if kind == "tuple" else parts
