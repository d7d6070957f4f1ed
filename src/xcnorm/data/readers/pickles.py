"""Pickles that can build numbers, text, plain containers and arrays of numbers, and nothing else.

A pickle is a program. Run by `pickle.load` it may call any function there is; run here it finds a handful of stand-ins
written below, which do what numpy's own functions do in the pickle of an array.
"""

from __future__ import annotations

import io
import math
import pickle
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, ClassVar

import numpy as np

from xcnorm.data.readers._files import LARGEST, damaged, unreadable
from xcnorm.errors import UserError

_NUMERIC = re.compile(r"b1|[iu][1248]|f[248]|c(8|16)")
_PLAIN = (dict, list, tuple, set, str, bytes, bool, int, float, type(None), np.ndarray, np.generic)


def load_pickle(data: bytes | BinaryIO, encoding: str = "latin1", name: object = "the pickle") -> Any:
    """Load a pickle that may come from anywhere.

    Args:
        data: The pickle, or a stream that holds it and nothing after it.
        encoding: How the byte strings of Python 2 become text; ``"bytes"`` leaves them as they are.
        name: What to call it if it is refused.

    Returns:
        Dictionaries, lists, tuples, sets, text, bytes, numbers, None, numpy scalars and arrays of numbers.

    Raises:
        UserError: It is damaged, goes on after its end, or wants to build anything else.
    """
    stream, size = (io.BytesIO(data), len(data)) if isinstance(data, bytes) else (data, LARGEST)
    try:
        value = _Unpickler(_Source(stream, size), encoding=encoding).load()
        _check(value)
        if stream.read(1):
            raise damaged(name, "goes on after its end")
    except UserError:
        raise
    except _RefusedError as error:
        raise UserError(f"{name} is refused: {error}; fetch it from its publisher") from error
    except Exception as error:  # the machine that runs a pickle raises anything if the program is wrong
        raise unreadable(name, error) from error
    return value


class _Source:
    """A stream that is not asked for more than it can hold: to be asked is to reserve the memory."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream, self._left = stream, size

    def read(self, size: int) -> bytes:
        self._left -= size
        if self._left < 0:
            raise EOFError
        return self._stream.read(size)

    def readline(self) -> bytes:
        line = self._stream.readline(self._left)
        self._left -= len(line)
        return line


class _RefusedError(Exception):
    """The pickle wants more than it may have."""


def _check(value: object) -> None:
    """Refuse a stand-in that was not used up; containers may be deep, shared and even hold themselves."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if not isinstance(item, _PLAIN):
            raise _RefusedError("it holds a part of an array on its own")
        if isinstance(item, dict):
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set):
            waiting += item


class _Type:
    """A numeric type. A pickle names it first and states its byte order afterwards."""

    def __init__(self, code: str | bytes, align: object = False, copy: object = True) -> None:
        code = code.decode() if isinstance(code, bytes) else code
        if not _NUMERIC.fullmatch(code):
            raise _RefusedError(f"it has an array of type {code[:20]!r}, not of numbers")
        self.dtype = np.dtype(code)

    def set_state(self, state: tuple[Any, ...]) -> None:
        order: Any = state[1].decode() if isinstance(state[1], bytes) else state[1]
        self.dtype = self.dtype.newbyteorder(order)


class _NDArray:
    """Stands for the class `numpy.ndarray`, which appears as an argument only."""


def _reconstruct(kind: object, shape: object, code: object) -> np.ndarray:
    if kind is not _NDARRAY:
        raise _RefusedError("it rebuilds something that is not a plain array")
    return np.empty(0, np.uint8)


def _set_array(array: np.ndarray, state: tuple[Any, ...]) -> None:
    version, shape, kind, fortran, data = state
    checked: Any = (version, shape, kind.dtype, bool(fortran), _whole(data, kind, shape))
    array.__setstate__(checked)


def _frombuffer(data: bytes | bytearray, kind: _Type, shape: tuple[int, ...], order: Any) -> np.ndarray:
    # A copy: an array over immutable bytes could not be written to.
    return np.frombuffer(_whole(data, kind, shape), kind.dtype).reshape(shape, order=order).copy()


def _scalar(kind: _Type, data: bytes | str) -> Any:
    return np.frombuffer(_whole(data, kind, ()), kind.dtype)[0]


def _whole(data: bytes | bytearray | str, kind: _Type, shape: tuple[int, ...]) -> bytes:
    """The bytes of an array, if they are as many as its shape and type need."""
    raw = data.encode("latin1") if isinstance(data, str) else bytes(data)
    if any(type(length) is not int or length < 0 for length in shape):
        raise ValueError("an array's shape is not made of lengths")
    if len(raw) != math.prod(shape) * kind.dtype.itemsize:
        raise ValueError(f"an array of {kind.dtype} and shape {shape} has {len(raw)} bytes")
    return raw


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise ValueError(f"bytes are written as latin1, not as {encoding!r}")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    return b""


def _set(items: Sequence[Any] = ()) -> set[Any]:
    return {_hashable(item) for item in items}


def _hashable(key: Any) -> Any:
    """A key that is safe to hash; hashing a tuple of tuples of tuples ... overflows the interpreter's own stack."""
    if isinstance(key, str | bytes | int | float | np.generic | None):
        return key
    raise _RefusedError(f"it has a {type(key).__name__} as the key of a dictionary or in a set")


_NDARRAY = _NDArray()
_STAND_INS: dict[str, object] = {
    "numpy.ndarray": _NDARRAY,
    "numpy.dtype": _Type,
    "numpy.core.multiarray._reconstruct": _reconstruct,
    "numpy._core.multiarray._reconstruct": _reconstruct,
    "numpy.core.multiarray.scalar": _scalar,
    "numpy._core.multiarray.scalar": _scalar,
    "numpy.core.numeric._frombuffer": _frombuffer,
    "numpy._core.numeric._frombuffer": _frombuffer,
    "_codecs.encode": _encode,  # how older protocols write bytes
    "__builtin__.bytes": _no_bytes,
    "__builtin__.set": _set,
    "builtins.set": _set,
}


def _refuse(unpickler: pickle._Unpickler) -> None:
    raise _RefusedError("it wants to make an object")


class _Unpickler(pickle._Unpickler):
    """Python's own machine in Python; the one in C can be made to reserve all memory by one number in a file."""

    # What the base class has and its annotations do not mention.
    stack: list[Any]
    append: Callable[[Any], None]
    read: Callable[[int], bytes]
    pop_mark: Callable[[], list[Any]]

    def find_class(self, module: str, name: str) -> object:
        wanted = f"{module}.{name}"
        if wanted not in _STAND_INS:
            raise _RefusedError(f"it wants to use {wanted[:80]!r}")
        return _STAND_INS[wanted]

    def load_bytearray8(self) -> None:
        # The base class reserves what a number in the file says before it looks whether that much is there.
        (size,) = struct.unpack("<Q", self.read(8))
        self.append(bytearray(self.read(size)))

    def load_build(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, _Type):
            target.set_state(state)
        elif isinstance(target, np.ndarray):
            _set_array(target, state)
        else:
            raise _RefusedError(f"it wants to change a {type(target).__name__}")

    def load_dict(self) -> None:
        items = self.pop_mark()
        self.append({})
        self._fill(items)

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._fill([key, value])

    def load_setitems(self) -> None:
        self._fill(self.pop_mark())

    def _fill(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise _RefusedError(f"it wants to change a {type(target).__name__}")
        target.update((_hashable(key), value) for key, value in zip(items[::2], items[1::2], strict=True))

    def load_additems(self) -> None:
        items = self.pop_mark()
        self.stack[-1].update(_set(items))

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **pickle._Unpickler.dispatch,
        pickle.BYTEARRAY8[0]: load_bytearray8,
        pickle.BUILD[0]: load_build,
        pickle.DICT[0]: load_dict,
        pickle.SETITEM[0]: load_setitem,
        pickle.SETITEMS[0]: load_setitems,
        pickle.ADDITEMS[0]: load_additems,
        # What would call something that did not go through `find_class`, or leave something that is not plain.
        **{
            opcode[0]: _refuse
            for opcode in (
                pickle.PERSID,
                pickle.BINPERSID,
                pickle.INST,
                pickle.OBJ,
                pickle.NEWOBJ,
                pickle.NEWOBJ_EX,
                pickle.EXT1,
                pickle.EXT2,
                pickle.EXT4,
                pickle.NEXT_BUFFER,
                pickle.READONLY_BUFFER,
                pickle.FROZENSET,
            )
        },
    }
