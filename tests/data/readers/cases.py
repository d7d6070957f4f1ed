"""A good file of every published format, and how it is read."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from tests.data.readers import writers
from xcnorm.data.readers import (
    read_cifar,
    read_cifar10c,
    read_idx,
    read_mat,
    read_metadata,
    read_mnist_m,
    read_mnist_m_keras,
    read_npz,
    read_pictures_npz,
    read_usps_h5,
    read_usps_libsvm,
)

LABELS = np.array([3, 1, 4, 1, 5])
IMAGES = writers.pixels(5, 32, 32, 3)
VALUES = np.round(np.random.default_rng(0).uniform(-1, 1, (5, 256)), 3)


@dataclass(frozen=True)
class Case:
    """A good file below a folder, and how it is read."""

    file: str
    write: Callable[[Path], object]
    read: Callable[[Path], object]


def idx_pair(folder: Path) -> None:
    writers.idx_pair(folder, IMAGES[..., 0], LABELS)
    writers.idx_pair(folder, IMAGES[..., 0], LABELS, compressed=False)


def read_idx_of(folder: Path, suffix: str) -> object:
    return read_idx(folder / f"t10k-images-idx3-ubyte{suffix}", folder / f"t10k-labels-idx1-ubyte{suffix}")


def npz(folder: Path) -> None:
    np.savez_compressed(folder / "set.npz", residual=IMAGES.transpose(0, 3, 1, 2), labels=LABELS)


CIFAR = writers.cifar(test_batch=(IMAGES.transpose(0, 3, 1, 2), LABELS))
MNIST_M = writers.mnist_m(IMAGES, LABELS)
CIFAR10C = writers.cifar10c(LABELS, fog=IMAGES)
ROWS = [(f"{n:03d}", 1, 2, 3, n % 2, n, n // 10, 0) for n in range(50)]

CASES = {
    "idx.gz images": Case("t10k-images-idx3-ubyte.gz", idx_pair, lambda folder: read_idx_of(folder, ".gz")),
    "idx.gz labels": Case("t10k-labels-idx1-ubyte.gz", idx_pair, lambda folder: read_idx_of(folder, ".gz")),
    "idx images": Case("t10k-images-idx3-ubyte", idx_pair, lambda folder: read_idx_of(folder, "")),
    "idx labels": Case("t10k-labels-idx1-ubyte", idx_pair, lambda folder: read_idx_of(folder, "")),
    "mat": Case("x.mat", lambda f: writers.mat(f / "x.mat", IMAGES, LABELS), lambda f: read_mat(f / "x.mat")),
    "plain mat": Case(
        "x.mat", lambda f: writers.mat(f / "x.mat", IMAGES, LABELS, compressed=False), lambda f: read_mat(f / "x.mat")
    ),
    "mnist_m.tar.gz": Case(
        "mnist_m.tar.gz",
        lambda f: writers.tar(f / "mnist_m.tar.gz", MNIST_M, "w:gz"),
        lambda f: read_mnist_m(f / "mnist_m.tar.gz"),
    ),
    "mnist_m picture": Case(
        "mnist_m/mnist_m_test/00000002.png",
        lambda f: writers.folder(f / "mnist_m", MNIST_M),
        lambda f: read_mnist_m(f / "mnist_m"),
    ),
    "mnist_m list": Case(
        "mnist_m/mnist_m_test_labels.txt",
        lambda f: writers.folder(f / "mnist_m", MNIST_M),
        lambda f: read_mnist_m(f / "mnist_m"),
    ),
    "mnist_m keras": Case(
        "keras.pkl.gz",
        lambda f: writers.mnist_m_keras(f / "keras.pkl.gz", test=writers.pixels(5, 28, 28, 3)),
        lambda f: read_mnist_m_keras(f / "keras.pkl.gz", torch.from_numpy(LABELS)),
    ),
    "usps.bz2": Case(
        "usps.bz2",
        lambda f: writers.usps_libsvm(f / "usps.bz2", VALUES, LABELS),
        lambda f: read_usps_libsvm(f / "usps.bz2"),
    ),
    "usps text": Case(
        "usps",
        lambda f: writers.usps_libsvm(f / "usps", VALUES, LABELS, compressed=False),
        lambda f: read_usps_libsvm(f / "usps"),
    ),
    "usps.h5": Case(
        "usps.h5",
        lambda f: writers.usps_h5(f / "usps.h5", test=(VALUES / 2 + 0.5, LABELS)),
        lambda f: read_usps_h5(f / "usps.h5"),
    ),
    "cifar.tar.gz": Case(
        "cifar.tar.gz",
        lambda f: writers.tar(f / "cifar.tar.gz", CIFAR, "w:gz"),
        lambda f: read_cifar(f / "cifar.tar.gz", ["test_batch"]),
    ),
    "cifar batch": Case(
        "cifar/test_batch",
        lambda f: writers.folder(f / "cifar", CIFAR),
        lambda f: read_cifar(f / "cifar", ["test_batch"]),
    ),
    "cifar10c.tar": Case(
        "C.tar", lambda f: writers.tar(f / "C.tar", CIFAR10C, "w"), lambda f: read_cifar10c(f / "C.tar", "fog", 5)
    ),
    "cifar10c array": Case(
        "C/fog.npy", lambda f: writers.folder(f / "C", CIFAR10C), lambda f: read_cifar10c(f / "C", "fog", 1)
    ),
    "cifar10c labels": Case(
        "C/labels.npy", lambda f: writers.folder(f / "C", CIFAR10C), lambda f: read_cifar10c(f / "C", "fog", 1)
    ),
    "wilds": Case("metadata.csv", lambda f: writers.wilds(f, ROWS), read_metadata),
    "npz": Case("set.npz", npz, lambda f: read_npz(f / "set.npz")),
    "pictures": Case(
        "frost.npz",
        lambda f: np.savez_compressed(f / "frost.npz", frost1=IMAGES[0], frost2=IMAGES[1]),
        lambda f: read_pictures_npz(f / "frost.npz"),
    ),
}
