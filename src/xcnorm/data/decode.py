"""Decoding: many picture files into one array, once, with all cores, and into a file where memory would not hold it.

The array is written through a memory map, so that the processes that decode need not send pictures to one another, and
under another name until it is whole, so that a file under its own name always is.
"""

from __future__ import annotations

import errno
import hashlib
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib.format import open_memmap
from PIL import Image
from torch import Tensor

from xcnorm.data.readers.picture import read_picture
from xcnorm.data.staging import staging
from xcnorm.errors import UserError, one_line
from xcnorm.files import disk_errors, flush

_CHUNK = 64  # pictures that a process is given at a time; after an error, it finishes these
_FEW = 2000  # pictures that are decoded sooner than processes start
_MOST_WORKERS = 16  # unless asked for; more rarely help, and each one needs memory


def decode(
    paths: Sequence[Path],
    *,
    pixels: int | None = None,
    out: Path | None = None,
    workers: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Tensor:
    """Decode picture files into one tensor; the result does not depend on the number of processes.

    With `out`, the pictures go to a file in NumPy's format, ``(N, H, W, 3)``, and the tensor is a view of it as in
    `open_decoded`. If that file holds the same list of pictures at the same size already, nothing is decoded; the
    pictures themselves are not looked at again. If it holds anything else, it is replaced.

    Args:
        paths: The picture files.
        pixels: Height and width to bring the pictures to: the largest central square is resized with Pillow's bilinear
            filter. Without it, all pictures must have the same size.
        out: The file to keep the pictures in; without it, they are kept in memory, having passed through a file in the
            folder for temporary ones.
        workers: How many processes decode at most; unless given, one for each core, up to 16. With one, and for fewer
            than 2,000 pictures, this process does it alone.
        progress: Called with the number of pictures that were decoded since it was called last.

    Returns:
        ``(N, 3, H, W)``, uint8, with the channels last in memory.

    Raises:
        UserError: There are no pictures, one cannot be read, their sizes differ, a number is out of its range, the
            disk has too little room, or a process died.
    """
    if not paths:
        raise UserError("there are no pictures to decode; check the folder")
    for name, number in (("pixels", pixels), ("workers", workers)):
        if number is not None and number < 1:
            raise UserError(f"{name} must be 1 or more, not {number}")
    workers = workers or min(os.cpu_count() or 1, _MOST_WORKERS)
    progress = progress or (lambda count: None)
    if out is None:
        with tempfile.TemporaryDirectory(prefix="xcnorm-") as folder:
            file = Path(folder, "pictures.npy")
            _write(file, paths, pixels, workers, progress, "set TMPDIR to a folder on another disk")
            return _as_images(np.load(file))
    if not _holds(out, _fingerprint(paths, pixels)):
        _write(out, paths, pixels, workers, progress)
    return open_decoded(out)


def open_decoded(out: Path) -> Tensor:
    """The pictures in a file that `decode` wrote, ``(N, 3, H, W)``, uint8, read from disk as they are used.

    Changes stay in memory and never reach the file. A set larger than the memory cannot be changed at all: writing to
    it ends the process.

    Raises:
        UserError: The file cannot be read, or holds no pictures.
    """
    try:
        try:
            array = open_memmap(out, mode="c")
        except OSError as error:
            if error.errno != errno.ENOMEM:
                raise
            # Linux keeps room for changes to all of it, and refuses where that is more than there is.
            array = open_memmap(out, mode="r")
    except Exception as error:  # its header is Python's syntax, and the parser raises anything
        reason = getattr(error, "strerror", None) or one_line(error) or type(error).__name__
        raise UserError(f"{out} cannot be read as decoded pictures ({reason}); decode them again") from error
    if array.ndim != 4 or array.shape[3] != 3 or array.dtype != np.uint8:
        raise UserError(f"{out} holds no decoded pictures but {array.dtype} of shape {array.shape}; decode them again")
    return _as_images(array)


def _as_images(array: np.ndarray) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
        return torch.from_numpy(array).permute(0, 3, 1, 2)


def _fingerprint(paths: Sequence[Path], pixels: int | None) -> bytes:
    """Stands at the end of the file, behind the array, where readers of NumPy's format do not look."""
    return hashlib.sha256(b"\0".join([str(pixels).encode(), *map(os.fsencode, paths)])).digest()


def _holds(out: Path, fingerprint: bytes) -> bool:
    try:
        with out.open("rb") as file:
            file.seek(-len(fingerprint), os.SEEK_END)
            return file.read() == fingerprint
    except OSError:  # there is none, or it is shorter; if it cannot be replaced either, that is said then
        return False


def _write(
    out: Path,
    paths: Sequence[Path],
    pixels: int | None,
    workers: int,
    progress: Callable[[int], None],
    remedy: str = "keep the pictures in another file",
) -> None:
    shape = (len(paths), *fitted(paths[0], pixels).shape)
    # In a folder that the next one empties, if this process is killed: the pictures may be many gigabytes.
    with disk_errors(out, remedy), staging(out) as folder:
        part = folder / "pictures.npy"
        _check_room(out.parent, shape)
        open_memmap(part, mode="w+", dtype=np.uint8, shape=shape)
        _reserve(part)
        _fill(part, paths, pixels, workers, progress)
        with part.open("ab") as file:
            file.write(_fingerprint(paths, pixels))
        flush(part)
        part.replace(out)
        flush(out.parent)


def _check_room(folder: Path, shape: tuple[int, ...]) -> None:
    needed, free = int(np.prod(shape, dtype=np.int64)), shutil.disk_usage(folder).free
    if needed > free:
        raise UserError(
            f"{shape[0]} pictures of {shape[2]}x{shape[1]} pixels take {needed / 1e9:.1f} GB, but {folder} has "
            f"{free / 1e9:.1f} GB left; make room, or keep them in a file on another disk"
        )


def _reserve(file: Path) -> None:
    # Whoever writes through a map to a place for which the disk has no room is killed; so the room is taken before.
    if hasattr(os, "posix_fallocate"):
        with file.open("r+b") as handle:
            os.posix_fallocate(handle.fileno(), 0, file.stat().st_size)


def _fill(part: Path, paths: Sequence[Path], pixels: int | None, workers: int, progress: Callable[[int], None]) -> None:
    jobs = [(part, start, paths[start : start + _CHUNK], pixels, paths[0]) for start in range(0, len(paths), _CHUNK)]
    if workers == 1 or len(paths) < _FEW:
        for job in jobs:
            progress(_decode_chunk(*job))
        return
    # Spawned, not forked: a fork inherits the locks of torch's threads without the threads that would release them.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(jobs)), context, initializer=_begin_work, initargs=(os.getpid(),))
    try:
        with _without_main():
            chunks = [pool.submit(_decode_chunk, *job) for job in jobs]
        for done in as_completed(chunks):
            progress(done.result())
    except BrokenProcessPool as error:
        raise UserError("a process that decoded pictures died, perhaps killed for lack of memory; try again") from error
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _without_main() -> Iterator[None]:
    """Start processes that do not run the user's script again, which need not have a guard against that."""
    main = sys.modules["__main__"]
    hidden: dict[str, Any] = {
        name: main.__dict__.pop(name) for name in ("__file__", "__spec__") if name in main.__dict__
    }
    main.__spec__ = None
    try:
        yield
    finally:
        main.__dict__.update(hidden)


def _begin_work(parent: int) -> None:
    """Leave Ctrl-C, which reaches every process of the terminal, to the parent, and end when it was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _decode_chunk(part: Path, start: int, paths: Sequence[Path], pixels: int | None, first: Path) -> int:
    """Write some pictures to their places in the file, and count them."""
    array = open_memmap(part, mode="r+")
    for place, path in enumerate(paths, start):
        picture = fitted(path, pixels)
        if picture.shape != array.shape[1:]:
            sizes = [f"{width}x{height}" for height, width, _ in (picture.shape, array.shape[1:])]
            raise UserError(
                f"{path} has {sizes[0]} pixels, but {first} has {sizes[1]}; give a size for all in `pixels`"
            )
        array[place] = picture
    return len(paths)


def fitted(path: Path, pixels: int | None) -> np.ndarray:
    """One picture as `decode` has it, ``(H, W, 3)``, uint8.

    Raises:
        UserError: It cannot be read.
    """
    picture = read_picture(path)
    return picture if pixels is None else middle_square(picture, pixels)


def middle_square(picture: np.ndarray, pixels: int) -> np.ndarray:
    """The largest central square of a picture ``(H, W, 3)``, uint8, resized with Pillow's bilinear filter."""
    # To cut out a square while resizing is to resize the whole and then cut, except that no side needs rounding.
    height, width = picture.shape[:2]
    side = min(height, width)
    left, top = (width - side) / 2, (height - side) / 2
    square = (left, top, left + side, top + side)
    return np.asarray(Image.fromarray(picture).resize((pixels, pixels), Image.Resampling.BILINEAR, square))
