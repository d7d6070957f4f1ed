"""Readers of data as entrances: every published format, packed and not, pictures, pickles and archives."""

from __future__ import annotations

import io
import pickle
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from PIL import Image

from tests.data.readers import writers
from tests.data.readers.cases import CASES, CIFAR, IMAGES, MNIST_M, Case
from tests.fuzzing.entrance import Entrance, Prepared, file
from xcnorm.data.decode import decode, open_decoded
from xcnorm.data.download.unpack import unpack
from xcnorm.data.readers import load_pickle, read_cifar, read_mnist_m, read_picture

PICTURES = {"png": {}, "jpeg": {}, "bmp": {}, "tiff": {"compression": "tiff_lzw"}, "webp": {}, "gif": {}, "ppm": {}}
MODES = ("RGB", "L", "P", "1")


def _published(case: Case, folder: Path) -> Entrance:
    case.write(folder)
    path = folder / case.file
    return Entrance((path.read_bytes(),), file(path, lambda: case.read(folder)))


def _tar(members: dict[str, bytes], read: Callable[[Path], object], folder: Path) -> Entrance:
    """An archive that is not compressed, so that changes of its bytes are changes of its headers."""
    path = writers.tar(folder / "archive.tar.gz", members, "w")
    return Entrance((path.read_bytes(),), file(path, lambda: read(path)), (b"ustar\x00", b"././@LongLink", b"path="))


def _picture(kind: str, folder: Path) -> Entrance:
    del folder
    seeds = []
    for mode in MODES:
        packed = io.BytesIO()
        try:
            Image.fromarray(IMAGES[0]).convert(mode).save(packed, kind, **PICTURES[kind])
        except (OSError, KeyError):  # not every format has every mode
            continue
        seeds.append(packed.getvalue())
    return Entrance(tuple(seeds), lambda data: read_picture(io.BytesIO(data), "picture"))


def _decoded(folder: Path) -> Entrance:
    """The cache of decoded pictures, which somebody may have written to."""
    picture, out = folder / "0.png", folder / "decoded.npy"
    picture.write_bytes(writers.png(IMAGES[0]))
    decode([picture], out=out)
    return Entrance((out.read_bytes(),), file(out, lambda: open_decoded(out).sum()))


def _pickle(folder: Path) -> Entrance:
    del folder
    batch = {b"data": IMAGES[:1].reshape(1, -1), b"labels": [3], b"filenames": [b"cat.png"]}
    seeds = [writers.Python2.dump(batch), *(pickle.dumps(batch, protocol) for protocol in range(6))]
    seeds += [pickle.dumps([{1, 2}, bytearray(b"x"), (1.5, None, True, 2**70)], protocol) for protocol in (2, 4, 5)]
    tokens = (b"cos\nsystem\n", b"cnumpy\nndarray\n", b"numpy._core.multiarray", b"\x93", b"b.", b"R")
    return Entrance(tuple(seeds), lambda data: load_pickle(data, name="pickle"), tokens)


def _zipped(method: int) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, content in {"folder/a.png": writers.png(IMAGES[0]), "folder/b/c.txt": b"text" * 50}.items():
            archive.writestr(name, content)
    return packed.getvalue()


def _tarred(mode: str, how: int) -> bytes:
    packed = io.BytesIO()
    long = f"folder/{'b' * (30 if how == tarfile.USTAR_FORMAT else 120)}.txt"  # for longer ones it has no header
    with tarfile.open(fileobj=packed, mode=mode, format=how) as archive:
        for name, content in {"folder/a.png": writers.png(IMAGES[0]), long: b"text" * 50}.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def _unpacked(folder: Path, *seeds: bytes) -> Entrance:
    root, outside = folder / "root", folder / "outside.txt"
    outside.write_text("untouched")

    def run() -> None:
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        try:
            unpack(folder / "archive", root, limit_bytes=1 << 22, limit_members=100)
        finally:
            assert sorted(path.name for path in folder.iterdir()) == ["archive", "outside.txt", "root"], "it escaped"
            assert outside.read_text() == "untouched"
            assert not any(path.is_symlink() for path in root.rglob("*")), "a link"

    return Entrance(seeds, file(folder / "archive", run), (b"../outside.txt", b"/etc/passwd", b"ustar\x00", b"path="))


_ZIPS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_TARS = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)
_PACKED = ("w:gz", "w:bz2", "w:xz")

READERS: dict[str, Prepared] = {
    **{f"read {name}": partial(_published, case) for name, case in CASES.items()},
    "read cifar.tar": partial(_tar, CIFAR, lambda path: read_cifar(path, ["test_batch"])),
    "read mnist_m.tar": partial(_tar, MNIST_M, read_mnist_m),
    **{f"read {kind}": partial(_picture, kind) for kind in PICTURES},
    "read decoded pictures": _decoded,
    "load a pickle": _pickle,
    "unpack zip": lambda folder: _unpacked(folder, *map(_zipped, _ZIPS)),
    "unpack tar": lambda folder: _unpacked(folder, *(_tarred("w", how) for how in _TARS)),
    "unpack packed tar": lambda folder: _unpacked(folder, *(_tarred(mode, _TARS[1]) for mode in _PACKED)),
}
