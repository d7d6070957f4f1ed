"""Miniatures of the published files, written byte for byte as their publishers did, without any of the readers."""

import bz2
import gzip
import io
import struct
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image


def pixels(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def digits(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 10, count)


def idx(array: np.ndarray) -> bytes:
    """Images ``(N, H, W)`` or labels ``(N,)``: two zeros, type 8 (bytes), the number of dimensions, their lengths."""
    return (
        bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.astype(np.uint8).tobytes()
    )


def idx_pair(folder: Path, images: np.ndarray, labels: np.ndarray, compressed: bool = True) -> tuple[Path, Path]:
    suffix = ".gz" if compressed else ""
    paths = folder / f"t10k-images-idx3-ubyte{suffix}", folder / f"t10k-labels-idx1-ubyte{suffix}"
    for path, array in zip(paths, (images, labels), strict=True):
        path.write_bytes(gzip.compress(idx(array)) if compressed else idx(array))
    return paths


def mat(path: Path, images: np.ndarray, labels: np.ndarray, compressed: bool = True) -> Path:
    """Images ``(N, 32, 32, 3)``; labels as they are to be written."""
    from scipy.io import savemat

    savemat(path, {"X": images.transpose(1, 2, 3, 0), "y": labels[:, np.newaxis]}, do_compression=compressed)
    return path


def png(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(array).save(file, "png")
    return file.getvalue()


def tar(path: Path, members: dict[str, bytes], mode: str) -> Path:
    with tarfile.open(path, mode) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def folder(path: Path, members: dict[str, bytes]) -> Path:
    """The members below their first folder, as files."""
    for name, data in members.items():
        file = path.joinpath(*name.split("/")[1:])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return path


def mnist_m(images: np.ndarray, labels: np.ndarray, part: str = "test") -> dict[str, bytes]:
    """Images ``(N, 32, 32, 3)``. The list names the pictures from the last to the first, so that its order shows."""
    names = [f"{number:08d}.png" for number in range(len(images))][::-1]
    listing = "".join(f"{name} {label}\n" for name, label in zip(names, labels, strict=True))
    members = {f"mnist_m/mnist_m_{part}/{name}": png(image) for name, image in zip(names, images, strict=True)}
    return {**members, f"mnist_m/mnist_m_{part}_labels.txt": listing.encode()}


class Python2:
    """Pickles of protocol 2 as Python 2 wrote them, with byte strings for text and for the bytes of arrays."""

    @staticmethod
    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value if len(value) < 256 else b"T" + struct.pack("<i", len(value)) + value

    @staticmethod
    def number(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    @classmethod
    def array(cls, value: np.ndarray) -> bytes:
        shape = b"(" + b"".join(map(cls.number, value.shape)) + b"t"
        code, order = value.dtype.str[1:].encode(), value.dtype.str[:1].encode()
        dtype_state = b"(" + cls.number(3) + cls.text(order) + b"NNN" + cls.number(-1) * 2 + cls.number(0) + b"t"
        dtype = b"cnumpy\ndtype\n" + cls.text(code) + b"K\x00K\x01\x87R" + dtype_state + b"b"
        empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + cls.text(b"b") + b"\x87R"
        return empty + b"(" + cls.number(1) + shape + dtype + b"\x89" + cls.text(value.tobytes()) + b"tb"

    @classmethod
    def dump(cls, value: object) -> bytes:
        return b"\x80\x02" + cls._dump(value) + b"."

    @classmethod
    def _dump(cls, value: object) -> bytes:
        if isinstance(value, dict):
            return b"}(" + b"".join(cls._dump(part) for item in value.items() for part in item) + b"u"
        if isinstance(value, list):
            return b"](" + b"".join(map(cls._dump, value)) + b"e"
        if isinstance(value, bytes):
            return cls.text(value)
        return cls.array(value) if isinstance(value, np.ndarray) else cls.number(int(value))


def mnist_m_keras(path: Path, **parts: np.ndarray) -> Path:
    path.write_bytes(gzip.compress(Python2.dump({name.encode(): array for name, array in parts.items()})))
    return path


def cifar(**batches: tuple[np.ndarray, np.ndarray]) -> dict[str, bytes]:
    """Images ``(N, 3, 32, 32)`` and labels of each batch, in an order that is not that of their names."""
    return {
        f"cifar-10-batches-py/{name}": Python2.dump(
            {
                b"batch_label": name.encode(),
                b"labels": list(labels),
                b"data": images.reshape(-1, 3072),
                b"filenames": [b"leptodactylus_pentadactylus_s_000004.png"] * len(labels),
            }
        )
        for name, (images, labels) in reversed(batches.items())
    }


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def cifar10c(labels: np.ndarray, **corruptions: np.ndarray) -> dict[str, bytes]:
    return {f"CIFAR-10-C/{name}.npy": npy(array) for name, array in {"labels": labels, **corruptions}.items()}


def libsvm(values: np.ndarray, labels: np.ndarray) -> bytes:
    """Values ``(N, 256)`` from -1 to 1, labels from 0 to 9."""
    lines = (
        f"{label + 1} " + " ".join(f"{place}:{value:g}" for place, value in enumerate(row, start=1)) + " \n"
        for row, label in zip(values, labels, strict=True)
    )
    return "".join(lines).encode()


def usps_libsvm(path: Path, values: np.ndarray, labels: np.ndarray, compressed: bool = True) -> Path:
    text = libsvm(values, labels)
    path.write_bytes(bz2.compress(text) if compressed else text)
    return path


def usps_h5(path: Path, **parts: tuple[np.ndarray, np.ndarray]) -> Path:
    import h5py

    with h5py.File(path, "w") as file:
        for part, (values, labels) in parts.items():
            file[f"{part}/data"], file[f"{part}/target"] = values, labels
    return path


WILDS_HEADER = ",patient,node,x_coord,y_coord,tumor,slide,center,split\n"


def wilds(folder: Path, rows: list[tuple[object, ...]], header: str = WILDS_HEADER) -> Path:
    lines = (f"{number},{','.join(map(str, row))}\n" for number, row in enumerate(rows))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metadata.csv").write_text(header + "".join(lines))
    return folder
