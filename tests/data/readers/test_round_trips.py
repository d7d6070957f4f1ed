"""What was written in a published format is what is read, pixel for pixel and label for label."""

import bz2
import tarfile

import numpy as np
import pytest
import torch

from tests.data.readers import writers
from xcnorm.data.readers import (
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
    write_npz,
)
from xcnorm.errors import UserError


def check(found, images, labels):
    """Compare with images ``(N, C, H, W)`` and labels."""
    assert (found.images.dtype, found.labels.dtype) == (torch.uint8, torch.int64)
    np.testing.assert_array_equal(found.images.numpy(), images)
    np.testing.assert_array_equal(found.labels.numpy(), labels)
    found.images[0, 0, 0, 0] ^= 255  # may be written to
    assert found.images[0, 0, 0, 0] == 255 - images[0, 0, 0, 0]


@pytest.mark.parametrize("compressed", [True, False])
def test_idx(tmp_path, compressed):
    images, labels = writers.pixels(7, 5, 4), writers.digits(7)
    check(read_idx(*writers.idx_pair(tmp_path, images, labels, compressed)), images[:, None], labels)


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float64])
def test_mat(tmp_path, compressed, dtype):
    images, labels = writers.pixels(13, 32, 32, 3), np.arange(13) % 11
    path = writers.mat(tmp_path / "test_32x32.mat", images, labels.astype(dtype), compressed)
    check(read_mat(path), images.transpose(0, 3, 1, 2), labels % 10)  # 10 is the digit 0, and so is 0


def test_mat_as_matlab_writes_it(tmp_path):
    """Big-endian, the labels' doubles stored as bytes, an image alone without its last dimension, another variable."""
    import struct

    def element(kind, data):
        return struct.pack(">II", kind, len(data)) + data + bytes(-len(data) % 8)

    def matrix(name, shape, matrix_class, kind, data):
        parts = element(6, struct.pack(">II", matrix_class, 0)), element(5, struct.pack(f">{len(shape)}i", *shape))
        # A short name lies in its tag.
        return element(
            14, b"".join(parts) + struct.pack(">HH", len(name), 1) + name.ljust(4, b"\0") + element(kind, data)
        )

    image = writers.pixels(32, 32, 3)
    path = tmp_path / "one.mat"
    path.write_bytes(
        b"MATLAB 5.0 MAT-file".ljust(124)
        + b"\x01\x00MI"
        + matrix(b"text", (1, 2), 4, 4, b"\0a\0b")
        + matrix(b"z", (1, 1), 6, 9, struct.pack(">d", 1.5))
        + matrix(b"X", (32, 32, 3), 9, 2, image.tobytes(order="F"))
        + matrix(b"y", (1, 1), 6, 2, b"\x0a")
    )
    check(read_mat(path), image.transpose(2, 0, 1)[None], [0])


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("part", ["train", "test"])
def test_mnist_m(tmp_path, packed, part):
    images, labels = writers.pixels(6, 32, 32, 3), writers.digits(6)
    other = writers.mnist_m(images[:2], labels[:2], {"train": "test", "test": "train"}[part])
    members = {**other, **writers.mnist_m(images, labels, part), f"mnist_m/mnist_m_{part}/._00000000.png": b"Mac"}
    if packed:
        path = writers.tar(tmp_path / "mnist_m.tar.gz", members, "w:gz")
    else:
        path = writers.folder(tmp_path / "mnist_m", members)
    check(read_mnist_m(path, part), images.transpose(0, 3, 1, 2), labels)


def test_mnist_m_keras(tmp_path):
    images, labels = writers.pixels(6, 28, 28, 3), writers.digits(6)
    path = writers.mnist_m_keras(tmp_path / "keras_mnistm.pkl.gz", train=images[:4], valid=images[:2], test=images)
    check(read_mnist_m_keras(path, torch.from_numpy(labels)), images.transpose(0, 3, 1, 2), labels)
    check(read_mnist_m_keras(path, torch.from_numpy(labels[:4]), "train"), images[:4].transpose(0, 3, 1, 2), labels[:4])


@pytest.mark.parametrize("compressed", [True, False])
def test_usps_libsvm(tmp_path, compressed):
    levels = np.tile(np.arange(256), (3, 1))
    values, labels = (levels + 0.5) / 127.5 - 1, np.array([0, 9, 4])
    values[:, 255] = 1
    path = writers.usps_libsvm(tmp_path / "usps.t.bz2", values, labels, compressed)
    check(read_usps_libsvm(path), levels.reshape(3, 1, 16, 16), labels)


def test_usps_levels_are_rounded_down_in_single_precision(tmp_path):
    values = np.tile([-1, -0.6, -0.2, 0.2, 0.6, 1, 0, 0.999], (1, 32))
    expected = ((values.astype(np.float32) + 1) / 2 * 255).astype(np.uint8)
    found = read_usps_libsvm(writers.usps_libsvm(tmp_path / "usps", values, np.array([3])))
    np.testing.assert_array_equal(found.images.numpy().ravel(), expected.ravel())
    assert found.images.ravel()[[0, 5, 6, 7]].tolist() == [0, 255, 127, 254]


def test_usps_libsvm_in_several_streams(tmp_path):
    lines = writers.libsvm(np.zeros((2, 256)), np.array([1, 2])).splitlines(keepends=True)
    path = tmp_path / "usps.bz2"
    path.write_bytes(b"".join(map(bz2.compress, lines)))
    assert read_usps_libsvm(path).labels.tolist() == [1, 2]


def test_usps_h5(tmp_path):
    levels, labels = np.tile(np.arange(256), (3, 1)), np.array([0, 9, 4])
    values = np.minimum((levels + 0.5) / 255, 1).astype(np.float32)
    path = writers.usps_h5(tmp_path / "usps.h5", train=(values[:1], labels[:1]), test=(values, labels))
    check(read_usps_h5(path), levels.reshape(3, 1, 16, 16), labels)
    check(read_usps_h5(path, "train"), levels[:1].reshape(1, 1, 16, 16), labels[:1])


@pytest.mark.parametrize("packed", [True, False])
def test_cifar(tmp_path, packed):
    images, labels = writers.pixels(9, 3, 32, 32), writers.digits(9)
    batches = {"data_batch_1": slice(0, 4), "data_batch_2": slice(4, 7), "test_batch": slice(7, 9)}
    members = writers.cifar(**{name: (images[rows], labels[rows]) for name, rows in batches.items()})
    if packed:
        path = writers.tar(tmp_path / "cifar-10-python.tar.gz", members, "w:gz")
    else:
        path = writers.folder(tmp_path / "cifar-10-batches-py", members)
    check(read_cifar(path, ["data_batch_1", "data_batch_2"]), images[:7], labels[:7])
    check(read_cifar(path, ["test_batch"]), images[7:], labels[7:])
    check(read_cifar(path, ["test_batch", "data_batch_1"]), images[[7, 8, 0, 1, 2, 3]], labels[[7, 8, 0, 1, 2, 3]])


@pytest.fixture(params=["folder", "tar"])
def corrupted(request, tmp_path):
    """CIFAR-10-C of four images, with its arrays."""
    fog, snow, labels = (
        writers.pixels(20, 32, 32, 3),
        writers.pixels(20, 32, 32, 3, seed=1),
        np.tile(writers.digits(4), 5),
    )
    members = writers.cifar10c(labels.astype(np.uint8), snow=snow, fog=fog)
    if request.param == "tar":
        path = writers.tar(tmp_path / "CIFAR-10-C.tar", members, "w")
    else:
        path = writers.folder(tmp_path / "CIFAR-10-C", members)
    return path, {"fog": fog, "snow": snow}, labels


def test_cifar10c(corrupted):
    path, arrays, labels = corrupted
    assert list_cifar10c(path) == ("fog", "snow")
    for name, array in arrays.items():
        for severity in range(1, 6):
            rows = slice(4 * severity - 4, 4 * severity)
            check(read_cifar10c(path, name, severity), array[rows].transpose(0, 3, 1, 2), labels[rows])


def test_cifar10c_is_a_view_of_the_file_and_the_file_stays_as_it_is(corrupted):
    path, arrays, _ = corrupted
    images = read_cifar10c(path, "fog", 2).images
    assert images.stride() == (3072, 1, 96, 3)  # as it lies in the file: nothing was copied
    images.zero_()
    np.testing.assert_array_equal(read_cifar10c(path, "fog", 2).images.permute(0, 2, 3, 1), arrays["fog"][4:8])


def test_cifar10c_of_a_tar_made_in_its_folder(tmp_path):
    fog = writers.pixels(5, 32, 32, 3)
    members = {f"./{name}": data for name, data in writers.cifar10c(np.zeros(5, np.int64), fog=fog).items()}
    path = writers.tar(tmp_path / "own.tar", {**members, "./CIFAR-10-C/._fog.npy": b"Mac"}, "w")
    assert list_cifar10c(path) == ("fog",)
    np.testing.assert_array_equal(read_cifar10c(path, "fog", 3).images.permute(0, 2, 3, 1), fog[2:3])


ROWS = [("004", 4, 3328, 21792, 1, 0, 0, 0), ("4", 4, 3200, 22272, 0, 3, 0, 1), ("099", 0, 5, 7, 1, 49, 4, 0)]


def test_metadata(tmp_path):
    table = read_metadata(writers.wilds(tmp_path / "camelyon17_v1.0", ROWS))
    assert [path.as_posix() for path in table.paths] == [
        "patches/patient_004_node_4/patch_patient_004_node_4_x_3328_y_21792.png",
        "patches/patient_004_node_4/patch_patient_004_node_4_x_3200_y_22272.png",
        "patches/patient_099_node_0/patch_patient_099_node_0_x_5_y_7.png",
    ]
    columns = [column.tolist() for column in (table.labels, table.centre, table.slide, table.split)]
    assert columns == [[1, 0, 1], [0, 0, 4], [0, 3, 49], [0, 1, 0]]
    assert {column.dtype for column in table[1:]} == {np.dtype(np.int64)}


def test_metadata_columns_are_found_by_name(tmp_path):
    header = ",split,center,slide,tumor,y_coord,x_coord,node,patient\n"
    mirrored = read_metadata(writers.wilds(tmp_path / "mirrored", [row[::-1] for row in ROWS], header))
    straight = read_metadata(writers.wilds(tmp_path / "straight", ROWS))
    assert mirrored.paths == straight.paths
    np.testing.assert_array_equal(mirrored[1:], straight[1:])


def coded(images):
    """The residual of one image at a time, from its definition."""
    shifted = np.zeros((*images.shape[:2], images.shape[2] + 1, images.shape[3] + 1), int)
    shifted[:, :, 1:, 1:] = images
    shifted[:, 0] -= shifted[:, 1]
    shifted[:, 2] -= shifted[:, 1]
    return (np.diff(np.diff(shifted, axis=2), axis=3) % 256).astype(np.uint8)


def test_npz(tmp_path):
    images, labels, path = writers.pixels(5, 3, 7, 6), writers.digits(5), tmp_path / "set.npz"
    np.savez_compressed(path, residual=coded(images), labels=labels.astype(np.uint8))
    check(read_npz(path), images, labels)
    for array, expected in [
        (images.transpose(0, 2, 3, 1), images),
        (np.asfortranarray(images.transpose(0, 2, 3, 1)), images),
        (images[:, 0], images[:, :1]),
        (images[:, 0, :, :, None], images[:, :1]),
    ]:
        np.savez(path, images=array, labels=labels.astype(">i2"))
        check(read_npz(path), expected, labels)


@pytest.mark.parametrize("channels", [1, 3])
def test_written_npz(tmp_path, channels):
    images, labels, path = writers.pixels(5, channels, 7, 6), writers.digits(5), tmp_path / "set.npz"
    path.write_bytes(b"what was there before")
    write_npz(path, torch.from_numpy(images), torch.from_numpy(labels))
    check(read_npz(path), images, labels)
    with np.load(path) as arrays:
        assert set(arrays) == {"labels", "residual" if channels == 3 else "images"}
        np.testing.assert_array_equal(
            *(arrays["residual"], coded(images)) if channels == 3 else (arrays["images"], images[:, 0])
        )
    assert list(tmp_path.iterdir()) == [path]  # nothing is left over


def test_textures_are_written_smaller_than_their_pixels(tmp_path):
    steps = np.random.default_rng(0).integers(-3, 4, (1, 1, 64, 64))
    texture = np.repeat(np.cumsum(np.cumsum(steps, 2), 3) % 256, 3, axis=1).astype(np.uint8)
    write_npz(tmp_path / "coded.npz", torch.from_numpy(texture), torch.tensor([0]))
    np.savez_compressed(tmp_path / "plain.npz", images=texture.transpose(0, 2, 3, 1), labels=[0])
    assert (tmp_path / "coded.npz").stat().st_size < (tmp_path / "plain.npz").stat().st_size


def test_other_arrays_of_an_npz(tmp_path):
    path = tmp_path / "set.npz"
    np.savez_compressed(
        path, images=writers.pixels(2, 3, 3), labels=[1, 0], stain_group=np.uint8([2, 1]), names=["a", "bc"]
    )
    np.testing.assert_array_equal(read_npz_array(path, "stain_group"), np.uint8([2, 1]))
    assert read_npz_array(path, "stain_group").dtype == np.uint8
    assert read_npz_array(path, "names").tolist() == ["a", "bc"]
    with pytest.raises(UserError, match=r"set\.npz has no array 'slide'; it has: images, labels, stain_group, names"):
        read_npz_array(path, "slide")


def test_pictures_npz(tmp_path):
    frost = {"frost1": writers.pixels(4, 6, 3), "frost2": writers.pixels(3, 2, 3)}
    np.savez_compressed(tmp_path / "frost.npz", **frost)
    found = read_pictures_npz(tmp_path / "frost.npz")
    assert list(found) == ["frost1", "frost2"]
    for name, picture in found.items():
        np.testing.assert_array_equal(picture, frost[name].transpose(2, 0, 1))


def test_an_archive_is_not_unpacked(tmp_path, monkeypatch):
    images, labels = writers.pixels(2, 3, 32, 32), writers.digits(2)
    path = writers.tar(tmp_path / "cifar-10-python.tar.gz", writers.cifar(test_batch=(images, labels)), "w:gz")

    def refuse(*arguments, **options):
        raise AssertionError("unpacked")

    monkeypatch.setattr(tarfile.TarFile, "extract", refuse)
    monkeypatch.setattr(tarfile.TarFile, "extractall", refuse)
    check(read_cifar(path, ["test_batch"]), images, labels)
    assert list(tmp_path.iterdir()) == [path]
