"""Archives of torch.export, copied with their graph and their tensors alone.

Loading such a file can run code in many ways: pickles, compiled libraries, files of an older format, operators that are
found by name in torch's own modules, sizes that are evaluated, names that become source text. So a file is looked
through first, and torch is given a copy of nothing but what was looked at: two readers may disagree on an archive that
somebody has built for that.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from xcnorm.errors import UserError

_NEEDED = re.compile(
    r"archive_format|archive_version|byteorder|\.data/version|models/model\.json|data/sample_inputs/model\.pt"
    r"|data/(weights|constants)/(model_\w+_config\.json|(weight|tensor)_\d+)",
    re.ASCII,
)
_LONGEST_TEXT = 10_000_000  # that is saved beside a network
_NOT_NEEDED = re.compile(r"\.data/serialization_id|extra/.*", re.DOTALL)

# Operators of torch, of its compiler, of torchvision and ours; none of them touches a file but the two in front.
_OPERATOR = (
    r"(?!torch\.ops\.aten\.(from_file|save)\b)"
    r"(torch\.ops\.(aten|prims|higher_order|quantized_decomposed|torchvision|xcnorm)\.\w+(\.\w+)?"
    r"|_operator\.(getitem|add|sub|mul|pow|mod|neg|pos|abs|truediv|floordiv|"
    r"lshift|rshift|and_|or_|xor|not_|eq|ne|lt|le|gt|ge)"
    r"|math\.[a-z]+|torch\.sym_\w+|torch\._sym_\w+)"
)
# What a text in a graph may be, by its key. Most are names, and some of those end up in source text.
_NAME = r"[\w.]*"
_TEXTS = {
    "target": rf"{_OPERATOR}|(?!torch|_operator|math|#){_NAME}",
    "as_operator": _OPERATOR,
    "expr_str": r"(?:[A-Z]\w*(?=[(,)]|$)|'\w+'|[a-z]+(?==)|True|False|-?\d+|(?<!\))\(|[=, )])*",
    # How arguments nest. Two of its kinds would import any module by its name.
    "in_spec": r"(?!.*(__enum__|default_factory|\\u))[\w\[\]{}\"\\:,. ]*",
    "out_spec": r"(?!.*(__enum__|default_factory|\\u))[\w\[\]{}\"\\:,. ]*",
    "as_string": r"[\w.,> -]*",  # "bij,bjk->bik"
    "as_float": r"-?[\w.]*",
    "torch_version": r"[\w.+]*",
}


class _CodeError(Exception):
    """The archive holds more than a graph and plain tensors."""


def extra_text(path: Path, name: str) -> str | None:
    """A text that was saved beside a network, by its name; None if there is none.

    Args:
        path: The file, which `plain_copy` has looked at.
        name: Of the text.

    Raises:
        UserError: It is too long, or no text.
    """
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.filename.partition("/")[2] == f"extra/{name}":
                try:
                    if member.file_size > _LONGEST_TEXT:
                        raise ValueError(f"it has more than {_LONGEST_TEXT:,} characters")
                    return archive.read(member).decode()
                except (ValueError, zipfile.BadZipFile) as error:
                    raise UserError(f"what {path} says about its network cannot be read: {error}") from error
    return None


def plain_copy(path: Path) -> io.BytesIO:
    """An archive of torch.export with nothing in it that could run code.

    Args:
        path: The file.

    Raises:
        UserError: It is damaged, or holds anything else.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            contents = dict(_records(archive, path.stat().st_size))
        graph = json.loads(contents["models/model.json"])
        for name in [name for name in contents if name.endswith("_config.json")]:
            _check_payload(json.loads(contents[name])["config"].values())
        graph["guards_code"] = []  # Python, of conditions on the input that are not asked for
        contents["models/model.json"] = json.dumps(_plain(graph)).encode()
    except _CodeError as error:
        raise UserError(
            f"{path} holds more than a graph and plain tensors, which could run any code when it is loaded; "
            "export the network again without it, or name a function that builds it: package.module:callable"
        ) from error
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RuntimeError, zipfile.BadZipFile) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"{path} cannot be read as a file of torch.export: {reason}") from error
    copy = io.BytesIO()
    with zipfile.ZipFile(copy, "w") as made:
        for name, content in contents.items():
            made.writestr(f"network/{name}", content)
    copy.seek(0)
    return copy


def _records(archive: zipfile.ZipFile, size: int) -> Iterator[tuple[str, bytes]]:
    """The records that are needed; refused if there is one that could be read in two ways, or is code."""
    members = archive.infolist()
    if any(member.compress_type != zipfile.ZIP_STORED for member in members) or size < sum(
        member.file_size for member in members
    ):
        raise ValueError("it is compressed, which torch.export does not do")
    if len({member.filename.lower() for member in members}) < len(members):
        raise ValueError("it holds two records of one name")
    for member in members:
        name = member.filename.partition("/")[2]
        if _NEEDED.fullmatch(name):
            yield name, archive.read(member)
        elif not _NOT_NEEDED.fullmatch(name):
            raise _CodeError


def _check_payload(entries: Iterable[Any]) -> None:
    """Refuse tensors that are pickled, and objects."""
    for entry in entries:
        if entry["use_pickle"] is not False or not re.fullmatch(r"(weight|tensor)_\d+", entry["path_name"], re.ASCII):
            raise _CodeError


def _plain(part: Any, key: str = "") -> Any:
    """A part of a graph without what is said of its origin; refused if a text in it is anything but a name."""
    if isinstance(part, dict):
        for name in part:
            _check_text(name, _NAME)
        return {name: {} if name == "metadata" else _plain(value, name) for name, value in part.items()}
    if isinstance(part, list):
        return [_plain(value, key) for value in part]
    if isinstance(part, str):
        _check_text(part, _TEXTS.get(key, _NAME))
    return part


def _check_text(text: str, pattern: str) -> None:
    if not re.fullmatch(pattern, text, re.ASCII):
        raise _CodeError
