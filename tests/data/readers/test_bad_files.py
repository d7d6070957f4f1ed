"""A file that is not what it should be gives one line that names it, whatever is wrong with it, and soon."""

import bz2
import contextlib
import gzip
import os
import re
import struct
import sys
import tarfile
import tracemalloc
import warnings
import zipfile
import zlib
from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.data.readers import writers
from tests.data.readers.cases import CASES, CIFAR, CIFAR10C, IMAGES, LABELS, MNIST_M, ROWS, VALUES
from xcnorm.data.readers import (
    _files,
    list_cifar10c,
    read_cifar,
    read_cifar10c,
    read_idx,
    read_mat,
    read_metadata,
    read_mnist_m,
    read_mnist_m_keras,
    read_npz,
    read_npz_array,
    read_pictures_npz,
    read_usps_h5,
    read_usps_libsvm,
    usps,
    write_npz,
)
from xcnorm.errors import UserError

OTHERS = {
    "nothing": b"",
    "one byte": b"\0",
    "random bytes": np.random.default_rng(1).bytes(5000),
    "zeros": bytes(5000),
    "text": b"<html><body>404 Not Found</body></html>\n",
    "a picture": writers.png(IMAGES[0][:20]),
    "a plain array": writers.npy(np.arange(3.0)),
    "an empty gzip file": gzip.compress(b""),
    "a gzip file of text": gzip.compress(b"hello " * 100),
    "a bz2 file of text": bz2.compress(b"hello " * 100),
    "a gzip bomb": gzip.compress(bytes(1 << 20)) * 30,
    "a bz2 bomb": bz2.compress(bytes(1 << 20)) * 30,
    "a HDF5 header": b"\x89HDF\r\n\x1a\n" + bytes(500),
    "a MATLAB 7.3 header": b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + bytes(500),
    "a zip file of nothing": b"PK\x05\x06" + bytes(18),
}


def complaint(read: Callable[..., object], *arguments: object) -> str:
    with pytest.raises(UserError) as caught:
        read(*arguments)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 600
    return message


def frugal_complaint(read: Callable[..., object], *arguments: object) -> str:
    """The same, from a bomb that would take far more memory if it were unpacked."""
    tracemalloc.start()
    try:
        message = complaint(read, *arguments)
        assert tracemalloc.get_traced_memory()[1] < 8e6
    finally:
        tracemalloc.stop()
    return message


@pytest.fixture(params=CASES.values(), ids=CASES)
def case(request, tmp_path):
    request.param.write(tmp_path)
    request.param.read(tmp_path)  # good as it is
    return request.param


def test_missing(case, tmp_path):
    file = tmp_path / case.file
    file.unlink()
    message = complaint(case.read, tmp_path)
    assert file.name in message or file.stem in message
    assert "does not exist" in message or "has no" in message or "unknown corruption" in message


def test_a_folder(case, tmp_path):
    file = tmp_path / case.file
    file.unlink()
    file.mkdir()
    assert file.name in complaint(case.read, tmp_path)


def test_forbidden(case, tmp_path):
    (tmp_path / case.file).chmod(0)
    if os.access(tmp_path / case.file, os.R_OK):
        pytest.skip("this user may read everything")
    assert "may not be read; check its permissions" in complaint(case.read, tmp_path)


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_another_file(case, tmp_path, other):
    file = tmp_path / case.file
    file.write_bytes(other)
    assert file.name in complaint(case.read, tmp_path)


@pytest.mark.parametrize("kept", [0.02, 0.3, 0.5, 0.8])
def test_truncated(case, tmp_path, kept):
    file = tmp_path / case.file
    data = file.read_bytes()
    file.write_bytes(data[: int(kept * len(data))])
    if case.file == "metadata.csv" and data[int(kept * len(data)) - 1 :].startswith(b"\n"):
        pytest.skip("a table cut between rows is a table")
    assert file.name in complaint(case.read, tmp_path)


def test_changed_anywhere(case, tmp_path):
    """Ten bytes changed: other data or a complaint, but no other exception."""
    if case.file.endswith(".h5"):
        pytest.skip("the HDF5 library itself is not ours to test")
    file = tmp_path / case.file
    data = np.frombuffer(file.read_bytes(), np.uint8)
    random = np.random.default_rng(0)
    for _ in range(60):
        changed = data.copy()
        places = random.integers(0, min(len(data), random.choice([200, 2000, len(data)])), 10)
        changed[places] = random.integers(0, 256, 10)
        file.unlink()  # a new file: the old one may be mapped
        file.write_bytes(changed.tobytes())
        with warnings.catch_warnings(action="ignore"), contextlib.suppress(UserError):
            case.read(tmp_path)


def test_trailing_bytes(case, tmp_path):
    file = tmp_path / case.file
    if file.suffix in (".png", ".h5", ".tar") or file.name == "cifar.tar.gz":
        pytest.skip("what follows the end of this format is not part of it")
    file.write_bytes(file.read_bytes() + b"garbage")
    assert file.name in complaint(case.read, tmp_path)


# idx


def test_idx_swapped(tmp_path):
    images, labels = writers.idx_pair(tmp_path, IMAGES[..., 0], LABELS)
    message = complaint(read_idx, labels, images)
    assert "t10k-labels-idx1-ubyte.gz holds labels where images are expected (are the two files swapped?)" in message
    assert "t10k-images-idx3-ubyte.gz holds images where labels are expected" in complaint(read_idx, images, images)


@pytest.mark.parametrize("count", [4, 6])
def test_idx_of_another_number_of_labels(tmp_path, count):
    paths = writers.idx_pair(tmp_path, IMAGES[..., 0], np.zeros(count))
    assert f"t10k-labels-idx1-ubyte.gz has {count} labels for 5 images" in complaint(read_idx, *paths)


def test_idx_label_out_of_range(tmp_path):
    paths = writers.idx_pair(tmp_path, IMAGES[..., 0], np.array([0, 9, 10, 3, 200]))
    assert "has label 10 at position 2; labels are 0 to 9" in complaint(read_idx, *paths)


@pytest.mark.parametrize("shape", [(0, 28, 28), (5, 0, 28), (2**31, 1, 1), (2**32 - 1, 2**32 - 1, 2**32 - 1)])
def test_idx_of_an_impossible_shape(tmp_path, shape):
    images, labels = writers.idx_pair(tmp_path, IMAGES[..., 0], LABELS)
    images.write_bytes(gzip.compress(struct.pack(">4I", 2051, *shape) + bytes(100)))
    assert "which cannot be" in complaint(read_idx, images, labels)


def test_idx_of_a_shape_that_lies(tmp_path):
    images, labels = writers.idx_pair(tmp_path, IMAGES[..., 0], LABELS)
    images.write_bytes(gzip.compress(struct.pack(">4I", 2051, 2**16, 181, 181) + bytes(100)))
    assert f"is truncated: {2**16 * 181**2} bytes expected, 100 found" in complaint(read_idx, images, labels)


# MATLAB


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"X": IMAGES.transpose(1, 2, 3, 0)}, "has no variable 'y'; it has: X"),
        ({"y": LABELS}, "has no variable 'X'; it has: y"),
        ({"a": LABELS}, "has no variable 'X'; it has: none"),
        ({"X": IMAGES, "y": LABELS}, r"has X of type uint8 and shape (5, 32, 32, 3), not uint8 of (32, 32, 3, N)"),
        ({"X": IMAGES.transpose(1, 2, 3, 0) / 255, "y": LABELS}, "has X of type float64"),
        ({"X": "text", "y": LABELS}, "has no variable 'X'"),
        ({"X": IMAGES.transpose(1, 2, 3, 0), "y": LABELS[:4]}, "has 4 labels for 5 images"),
        (
            {"X": IMAGES.transpose(1, 2, 3, 0), "y": LABELS + 0.5},
            "has label 3.5; labels are whole numbers from 0 to 10",
        ),
        ({"X": IMAGES.transpose(1, 2, 3, 0), "y": LABELS * np.nan}, "has label nan; labels are whole numbers"),
        ({"X": IMAGES.transpose(1, 2, 3, 0), "y": LABELS + 6}, "has label 11; labels are whole numbers"),
        ({"X": IMAGES.transpose(1, 2, 3, 0), "y": LABELS - 2}, "has label -1; labels are whole numbers"),
    ],
)
def test_mat_of_something_else(tmp_path, variables, reason, compressed):
    from scipy.io import savemat

    savemat(tmp_path / "x.mat", variables, do_compression=compressed)
    assert f"x.mat {reason}" in complaint(read_mat, tmp_path / "x.mat")


def test_mat_unpacks_no_more_than_its_dimensions_need(tmp_path):
    """Five images, a variable that goes on with a hundred megabytes of zeros, and one nobody asked for."""
    path = writers.mat(tmp_path / "x.mat", IMAGES, LABELS, compressed=False)
    data = path.read_bytes()
    kind, size = struct.unpack("<II", data[128:136])
    assert kind == 14
    other = data[136 : 136 + size].replace(b"X\0\0\0", b"Z\0\0\0", 1)
    packed = [
        zlib.compress(struct.pack("<II", kind, size) + body + bytes(10**8), 1) for body in (other, data[136:][:size])
    ]
    path.write_bytes(data[:128] + b"".join(struct.pack("<II", 15, len(body)) + body for body in packed))
    assert "X is shorter or longer than it declares" in frugal_complaint(read_mat, path)


# MNIST-M


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: text[:-15], r"_labels.txt has 4 labels for 5 pictures"),
        (
            lambda text: text + b"00000005.png 1\n",
            r"has no mnist_m_test/00000005.png, which mnist_m_test_labels.txt lists",
        ),
        (lambda text: text + b"00000004.png 1\n", r"_labels.txt line 6 is not like"),
        (lambda text: text + b"../../../etc/passwd 1\n", r"_labels.txt line 6 is not like"),
        (lambda text: text.replace(b" ", b" 1", 1), r"_labels.txt line 1 is not like '00000000.png 7'"),
        (lambda text: b"\n", r"_labels.txt line 1 is not like"),
    ],
)
def test_mnist_m_of_another_list(tmp_path, change, reason):
    name = "mnist_m/mnist_m_test_labels.txt"
    path = writers.folder(tmp_path / "mnist_m", {**MNIST_M, name: change(MNIST_M[name])})
    assert reason in complaint(read_mnist_m, path)


def test_mnist_m_of_another_size(tmp_path):
    name = "mnist_m/mnist_m_test/00000003.png"
    for image, size in [(IMAGES[0][:16], "32 by 16"), (np.tile(IMAGES[0], (2, 1, 1)), "more than 1,024")]:
        path = writers.folder(tmp_path / "mnist_m", {**MNIST_M, name: writers.png(image)})
        assert f"00000003.png is a picture of {size} pixels" in complaint(read_mnist_m, path)


def test_parts_that_are_none(tmp_path):
    path = writers.mnist_m_keras(tmp_path / "keras.pkl.gz", train=IMAGES, test=IMAGES)
    assert "unknown part 'val'" in complaint(read_mnist_m, tmp_path, "val")
    assert "unknown part 'val'" in complaint(read_usps_h5, tmp_path, "val")
    message = complaint(read_mnist_m_keras, path, torch.from_numpy(LABELS), "valid")
    assert "keras.pkl.gz 'valid' (known: 'test', 'train')" in message
    assert "does not hold test as uint8 of (N, 28, 28, 3)" in complaint(
        read_mnist_m_keras, path, torch.from_numpy(LABELS)
    )


def test_mnist_m_keras_with_the_labels_of_another_part(tmp_path):
    path = writers.mnist_m_keras(tmp_path / "keras.pkl.gz", test=writers.pixels(5, 28, 28, 3))
    assert "has 5 images in test, not 4; give the labels" in complaint(
        read_mnist_m_keras, path, torch.from_numpy(LABELS[:4])
    )


# USPS


def test_usps_text_of_something_else(tmp_path):
    path = tmp_path / "usps"
    good = writers.libsvm(VALUES, LABELS)
    for text, reason in [
        (good.replace(b"256:", b"257:", 1), "line 1 is not like '7 1:-1 2:-0.5 ... 256:-1'"),
        (good + b"\n", "line 6 is not like"),
        (good.replace(b" 77:", b" 77:x", 1), "line 1 is not like"),
        (good + b"0" + good[1:], "has label 0 in line 6; labels are 1 to 10"),
        (good + b"11" + good[1:], "has label 11 in line 6; labels are 1 to 10"),
        (good + b"nan" + good[1:], "has label nan in line 6; labels are 1 to 10"),
        (writers.libsvm(VALUES + 0.5, LABELS), "has pixels outside the range"),
        (writers.libsvm(VALUES * np.nan, LABELS), "has pixels outside the range"),
        (b"7 " * 100_000, "line 1 is not like"),
    ]:
        path.write_bytes(text)
        assert reason in complaint(read_usps_libsvm, path)


@pytest.mark.parametrize("pack", [bz2.compress, bytes])
def test_usps_text_is_bounded(tmp_path, monkeypatch, pack):
    path = tmp_path / "usps"
    path.write_bytes(pack(writers.libsvm(VALUES, LABELS)))
    read_usps_libsvm(path)
    monkeypatch.setattr(usps, "_LARGEST_TEXT", 10_000)
    assert re.search("unpacks to more than USPS|is larger than USPS", complaint(read_usps_libsvm, path))


@pytest.mark.parametrize(
    ("values", "labels", "reason"),
    [
        (VALUES[:, :255], LABELS, "has test/data of type float64 and shape (5, 255), not floats of (N, 256)"),
        (np.uint8(VALUES), LABELS, "has test/data of type uint8"),
        (VALUES / 2 + 0.5, LABELS[:4], "has test/target of type int64 and shape (4,), not integers of (N,)"),
        (VALUES / 2 + 0.5, LABELS * 1.0, "has test/target of type float64"),
        (VALUES / 2 + 0.5, LABELS + 5, "has label 10 at position 4"),
        (VALUES, LABELS, "has pixels outside the range"),
    ],
)
def test_usps_h5_of_something_else(tmp_path, values, labels, reason):
    path = writers.usps_h5(tmp_path / "usps.h5", test=(values, labels))
    assert f"usps.h5 {reason}" in complaint(read_usps_h5, path)


def test_usps_h5_without_the_part(tmp_path):
    path = writers.usps_h5(tmp_path / "usps.h5", train=(VALUES, LABELS))
    assert "usps.h5" in complaint(read_usps_h5, path)


def test_usps_h5_bombs(tmp_path):
    import h5py

    path = tmp_path / "usps.h5"
    for shape, chunks in [((2**20, 256), None), ((5, 256), (2**19, 256))]:
        with h5py.File(path, "w") as file:
            file.create_dataset("test/data", shape, "f4", chunks=chunks, maxshape=(None, 256), compression="gzip")
            file.create_dataset("test/target", shape[:1], "u1")
        assert "has more in test than USPS can hold" in complaint(read_usps_h5, path)


def test_h5py_missing(tmp_path, monkeypatch):
    path = writers.usps_h5(tmp_path / "usps.h5", test=(VALUES, LABELS))
    monkeypatch.setitem(sys.modules, "h5py", None)
    message = complaint(read_usps_h5, path)
    assert message.endswith('is missing (h5py); install it with: pip install "xcnorm[data]"')


# CIFAR-10 and CIFAR-10-C


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        ([1, 2], "is not a batch of CIFAR-10: no 'data' and 'labels'"),
        ({b"data": IMAGES.reshape(5, -1)}, "is not a batch of CIFAR-10: no 'data' and 'labels'"),
        ({b"data": IMAGES.reshape(5, -1), b"labels": [1, 2, 3, 4]}, "has 4 labels for 5 images"),
        ({b"data": IMAGES.reshape(5, -1), b"labels": [1, 2, 3, 4, 10]}, "not a list of numbers from 0 to 9"),
        ({b"data": IMAGES.reshape(5, -1), b"labels": [1, 2, 3, 4, b"5"]}, "not a list of numbers from 0 to 9"),
        ({b"data": IMAGES.reshape(5, -1).astype("f4"), b"labels": [1] * 5}, "'data' is not uint8 of (N, 3072)"),
        ({b"data": IMAGES, b"labels": [1] * 5}, "'data' is not uint8 of (N, 3072)"),
        ({b"data": [1] * 5, b"labels": [1] * 5}, "'data' is not uint8 of (N, 3072)"),
    ],
)
def test_cifar_of_something_else(tmp_path, batch, reason):
    members = {"cifar-10-batches-py/test_batch": writers.Python2.dump(batch)}
    path = writers.tar(tmp_path / "cifar.tar.gz", members, "w:gz")
    message = complaint(read_cifar, path, ["test_batch"])
    assert "cifar.tar.gz/test_batch" in message
    assert reason in message


def test_cifar_with_a_pickle_that_bites(tmp_path):
    path = writers.folder(tmp_path / "cifar", {"x/test_batch": b"cos\nsystem\n(S'true'\ntR."})
    assert "cifar/test_batch is refused: it wants to use 'os.system'" in complaint(read_cifar, path, ["test_batch"])


def test_cifar_without_the_batches(tmp_path):
    path = writers.tar(tmp_path / "cifar.tar.gz", CIFAR, "w:gz")
    assert "cifar.tar.gz has no data_batch_1 and no data_batch_2" in complaint(
        read_cifar, path, ["data_batch_1", "test_batch", "data_batch_2"]
    )
    assert "has no batches to read" in complaint(read_cifar, path, [])


def test_archives_are_bounded(tmp_path, monkeypatch):
    """A member too large, and one before it that would have to be unpacked to be skipped."""
    header = tarfile.TarInfo("cifar-10-batches-py/test_batch")
    header.size = 2**33
    zeros = gzip.compress(bytes(1 << 20))
    path = tmp_path / "cifar.tar.gz"
    path.write_bytes(gzip.compress(header.tobuf()) + zeros)
    assert f"test_batch is larger than such a file can be ({2**33} bytes)" in frugal_complaint(
        read_cifar, path, ["test_batch"]
    )
    header.name = "cifar-10-batches-py/readme.html"
    path.write_bytes(gzip.compress(header.tobuf()) + zeros * 65)
    monkeypatch.setattr(_files, "_LARGEST_ARCHIVE", 1 << 26)
    message = frugal_complaint(read_cifar, path, ["test_batch"])
    assert "cifar.tar.gz unpacks to more than such a file can hold" in message


def test_links_in_archives_are_not_followed(tmp_path):
    path = tmp_path / "cifar.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        link = tarfile.TarInfo("cifar-10-batches-py/test_batch")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    assert "has no test_batch" in complaint(read_cifar, path, ["test_batch"])


@pytest.mark.parametrize(
    ("labels", "fog", "reason"),
    [
        (LABELS, IMAGES.astype("i2"), "fog.npy holds int16 of (5, 32, 32, 3), not uint8 of (5 N, 32, 32, 3)"),
        (LABELS, IMAGES.transpose(0, 3, 1, 2), "fog.npy holds uint8 of (5, 3, 32, 32)"),
        (LABELS, IMAGES[:4], "fog.npy holds uint8 of (4, 32, 32, 3)"),
        (LABELS[:4], IMAGES, "labels.npy has labels of shape (4,) for 5 images"),
        (LABELS + 5, IMAGES, "labels.npy has label 10 at position 0"),
        (LABELS * 1.0, IMAGES, "labels.npy has labels of type float64"),
        (LABELS, np.array([{}] * 5), "fog.npy holds Python objects, which are not loaded"),
        (LABELS, IMAGES[:0], "fog.npy"),
    ],
)
@pytest.mark.parametrize("packed", [True, False])
def test_cifar10c_of_something_else(tmp_path, labels, fog, reason, packed):
    members = writers.cifar10c(labels, fog=fog)
    if packed:
        path = writers.tar(tmp_path / "fog.npy.tar", members, "w")
    else:
        path = writers.folder(tmp_path / "CIFAR-10-C", members)
    assert reason in complaint(read_cifar10c, path, "fog", 5)


def test_cifar10c_names_and_severities(tmp_path):
    path = writers.folder(tmp_path / "CIFAR-10-C", CIFAR10C)
    assert "'frog'; did you mean 'fog'? (known: 'fog')" in complaint(read_cifar10c, path, "frog", 1)
    assert "unknown corruption" in complaint(read_cifar10c, path, "labels", 1)
    assert "unknown corruption" in complaint(read_cifar10c, path, "../CIFAR-10-C/fog", 1)
    for severity in (0, 6, -1):
        assert f"severity is from 1 to 5, not {severity}" in complaint(read_cifar10c, path, "fog", severity)
    assert "nowhere does not exist" in complaint(list_cifar10c, tmp_path / "nowhere")
    compressed = writers.tar(tmp_path / "C.tar.gz", CIFAR10C, "w:gz")
    assert "C.tar.gz is damaged or not what it should be" in complaint(list_cifar10c, compressed)


# Camelyon17-WILDS


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (("001", 1, 2, 3, 0, 12, 0, 0), "row 3 puts slide 12 into centre 0, not 1"),
        (("001", 1, 2, 3, 2, 12, 1, 0), "row 3 has a number out of range"),
        (("-01", 1, 2, 3, 0, 12, 1, 0), "row 3 has a number out of range"),
        (("001", "", 2, 3, 0, 12, 1, 0), "row 3 lacks a number"),
        (("../..", 1, 2, 3, 0, 12, 1, 0), "row 3 lacks a number"),
        (("001", 1, 2, 3, 0, 12, 1), "row 3 lacks a number"),
        (("001", 1, 2, 3, 0, 12, 1, 10**30), "is damaged"),
    ],
)
def test_metadata_with_a_bad_row(tmp_path, row, reason):
    writers.wilds(tmp_path, [ROWS[0], row, ROWS[1]])
    assert f"metadata.csv {reason}" in complaint(read_metadata, tmp_path)


def test_metadata_without_columns_or_rows(tmp_path):
    writers.wilds(tmp_path, ROWS, writers.WILDS_HEADER.replace("slide", "Slide").replace("node", "knot"))
    assert "metadata.csv has no column node and no slide" in complaint(read_metadata, tmp_path)
    writers.wilds(tmp_path, [])
    assert "metadata.csv has no rows" in complaint(read_metadata, tmp_path)


# npz


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"labels": LABELS}, "has no array 'images'; it has: labels"),
        ({"images": IMAGES}, "has no array 'labels'; it has: images"),
        (
            {"images": IMAGES / 255, "labels": LABELS},
            "(images) holds float64 of (5, 32, 32, 3), not uint8 of (N, H, W) or",
        ),
        ({"images": IMAGES[..., :2], "labels": LABELS}, "(images) holds uint8 of (5, 32, 32, 2)"),
        ({"images": IMAGES[0, 0], "labels": LABELS}, "(images) holds uint8 of (32, 3)"),
        ({"residual": IMAGES, "labels": LABELS}, "(residual) holds uint8 of (5, 32, 32, 3), not uint8 of (N, 3, H, W)"),
        ({"images": IMAGES, "labels": LABELS * 1.0}, "(labels) holds float64 of (5,), not integer of (N)"),
        ({"images": IMAGES, "labels": LABELS[:, None]}, "(labels) holds int64 of (5, 1)"),
        ({"images": IMAGES, "labels": LABELS[:3]}, "has 3 labels for 5 images"),
        ({"images": IMAGES, "labels": LABELS - 2}, "has label -1 at position 1; labels are from 0 on"),
        ({"images": IMAGES[:0], "labels": LABELS[:0]}, "holds no images"),
        ({"images": np.array([{}] * 5), "labels": LABELS}, "(images) holds Python objects, which are not loaded"),
    ],
)
def test_npz_of_something_else(tmp_path, arrays, reason):
    np.savez(tmp_path / "set.npz", **arrays)
    assert f"set.npz {reason}" in complaint(read_npz, tmp_path / "set.npz")


def test_pictures_of_something_else(tmp_path):
    np.savez(tmp_path / "set.npz", frost1=IMAGES[0], frost2=IMAGES)
    message = complaint(read_pictures_npz, tmp_path / "set.npz")
    assert "(frost2) holds uint8 of (5, 32, 32, 3), not uint8 of (H, W, 3)" in message


def npy_header(shape):
    header = repr({"descr": "|u1", "fortran_order": False, "shape": shape}).ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()


@pytest.mark.parametrize(
    ("shape", "size"), [((10, 8, 8), 10**8), ((10**9, 8, 8), 1000), ((2**20, 64, 64), 1000), ((-1, -8, 8), 64)]
)
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_npz_bombs(tmp_path, shape, size, method):
    path = tmp_path / "set.npz"
    if method == zipfile.ZIP_STORED:
        size = min(size, 10**6)
    with zipfile.ZipFile(path, "w", method, compresslevel=1) as archive:
        with archive.open("images.npy", "w") as member:
            member.write(npy_header(shape))
            for start in range(0, size, 10**6):
                member.write(bytes(min(10**6, size - start)))
        archive.writestr("labels.npy", writers.npy(np.zeros(10, int)))
    assert f"set.npz (images) has {size} bytes for an array of uint8 and shape {shape}" in frugal_complaint(
        read_npz, path
    )


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_npz_in_another_compression(tmp_path, method):
    with zipfile.ZipFile(tmp_path / "set.npz", "w", method) as archive:
        archive.writestr("labels.npy", writers.npy(LABELS))
    assert "compressed in a way" in complaint(read_npz_array, tmp_path / "set.npz", "labels")


def test_npz_whose_directory_lies(tmp_path):
    """Ten megabytes of zeros that the directory calls a hundred bytes."""
    path = tmp_path / "set.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("images.npy", npy_header((100,)) + bytes(10**7))
        archive.getinfo("images.npy").file_size = len(npy_header((100,))) + 100
    assert "set.npz" in frugal_complaint(read_npz_array, path, "images")


def test_npz_with_a_bad_checksum(tmp_path):
    path = tmp_path / "set.npz"
    np.savez(path, images=IMAGES, labels=LABELS)
    data = bytearray(path.read_bytes())
    data[5000] ^= 1
    path.write_bytes(data)
    assert "set.npz is damaged or not what it should be (Bad CRC-32" in complaint(read_npz, path)


@pytest.mark.parametrize(
    ("images", "labels", "reason"),
    [
        (torch.zeros(2, 3, 4, 4), torch.zeros(2, dtype=torch.int64), "must be uint8 of (N, 1 or 3, H, W)"),
        (torch.zeros(2, 2, 4, 4, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64), "must be uint8 of (N, 1 or 3"),
        (torch.zeros(2, 4, 4, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64), "must be uint8 of (N, 1 or 3"),
        (
            torch.zeros(2, 3, 4, 4, dtype=torch.uint8),
            torch.zeros(3, dtype=torch.int64),
            "labels to write must be int64 of (2,)",
        ),
        (torch.zeros(2, 3, 4, 4, dtype=torch.uint8), torch.zeros(2), "labels to write must be int64"),
        (torch.zeros(2, 3, 4, 4, dtype=torch.uint8), -torch.ones(2, dtype=torch.int64), "from 0 on"),
    ],
)
def test_what_cannot_be_written(tmp_path, images, labels, reason):
    assert reason in complaint(write_npz, tmp_path / "set.npz", images, labels)
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_can_be_written(tmp_path):
    images, labels = torch.zeros(2, 3, 4, 4, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64)
    (tmp_path / "folder.npz").mkdir()
    assert "folder.npz" in complaint(write_npz, tmp_path / "folder.npz", images, labels)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.npz"]
    (tmp_path / "file").touch()
    message = complaint(write_npz, tmp_path / "file" / "set.npz", images, labels)
    assert "cannot write" in message
    assert "write it into another folder" in message


def test_npz_with_names_that_give_a_terminal_orders(tmp_path):
    path = tmp_path / "set.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a\nb\x1b[2J.npy", b"")
        archive.writestr("c" * 5000 + ".npy", b"")
    assert "has no array 'images'; it has: a b�[2J, ccc" in complaint(read_npz, path)
