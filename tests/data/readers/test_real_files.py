"""Real data, where the environment variable XCNORM_DATA names a folder that has it."""

import hashlib
import os
from pathlib import Path

import pytest
import torch

from xcnorm.data.readers import read_npz, read_npz_array, read_pictures_npz

SHA256 = {
    "mnist_train10k.npz": "0c60e9cc58268284d33ca19d4492713726841c11d5a9ac1d199ef4e978640657",
    "mnist_test.npz": "af5595f05f0cc260498196e07655cfa443d2d96874d5ba0dcfeaea06defbda81",
    "usps_test.npz": "10f56b1a612b24be81751bebbc567f33c71bf8d17b2ba20dcaa74b8a06db8f66",
    "usps_train.npz": "45a229bad4f240256d407e9e5bed367633e60c3cce7bf849e4e1d637f6573a5f",
    "mnist_m_test.npz": "de952b9ebd734a1c259341f2827cbed5d913fd7edddddfcddeccb123727617ff",
    "svhn_test_28x28.npz": "867db16ba65899690cb842937ad473651eab7c5df9a453b0f9192bea586085b6",
    "cifar10_train_1of5.npz": "3f88e9ea22b52868f27fe39da164a7504ce8b5639b8deece651adec7c238659f",
    "cifar10_train_2of5.npz": "98c9b0defcb0230aae0c8cc324863363b322ac049de23bd243cceac96e62c50c",
    "cifar10_train_3of5.npz": "fdd046ac733a43d5da6e11c616429b5780531b0bac14975b54d6a7d9a117b872",
    "cifar10_train_4of5.npz": "df6724cf0838d36424006d9865a68ef4f00df6511205f5fae6575bf8a86b8f62",
    "cifar10_train_5of5.npz": "9e8f8a88a9de136d52d8a9469bda7bf6baa3597a971bdfd3d118c4d2fecf3932",
    "cifar10_test.npz": "687cdb069182f4d426a1704450f98b2c68aeada3df45aaf209d74f219c764ec2",
    "breakhis400x_96x96.npz": "82354955c6124b5c0058147a50dc4bc494b3831a2d3e80736b23703235f33361",
    "frost_overlays.npz": "511c177e72329c7feb8cd43ae91c16274819a00cb97f8dc64db2d8d73ddea2c3",
}


def real(name: str) -> Path:
    folder = os.environ.get("XCNORM_DATA")
    if not folder:
        pytest.skip("XCNORM_DATA is not set")
    path = Path(folder, name)
    if not path.is_file():
        pytest.skip(f"XCNORM_DATA has no {name}")
    return path


@pytest.mark.parametrize("name", SHA256)
def test_the_file_is_the_one_that_was_checked(name):
    with real(name).open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == SHA256[name]


@pytest.mark.parametrize(
    ("name", "shape", "counts"),
    [
        ("mnist_train10k.npz", (10000, 1, 28, 28), [1001, 1127, 991, 1032, 980, 863, 1014, 1070, 944, 978]),
        ("mnist_test.npz", (10000, 1, 28, 28), [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]),
        ("usps_test.npz", (2007, 1, 16, 16), [359, 264, 198, 166, 200, 160, 170, 147, 166, 177]),
        ("usps_train.npz", (7291, 1, 16, 16), [1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644]),
        ("mnist_m_test.npz", (9001, 3, 32, 32), None),
        ("svhn_test_28x28.npz", (26032, 3, 28, 28), [1744, 5099, 4149, 2882, 2523, 2384, 1977, 2019, 1660, 1595]),
        ("cifar10_test.npz", (10000, 3, 32, 32), [1000] * 10),
        ("breakhis400x_96x96.npz", (1670, 3, 96, 96), [547, 1123]),
    ],
)
def test_counts(name, shape, counts):
    images, labels = read_npz(real(name))
    assert images.shape == shape
    assert images.dtype == torch.uint8
    assert labels.shape == shape[:1]
    if counts is not None:
        assert labels.bincount().tolist() == counts


def test_the_pixels_of_cifar_have_the_published_mean_and_deviation():
    parts = [read_npz(real(f"cifar10_train_{part}of5.npz")) for part in range(1, 6)]
    assert torch.cat([part.labels for part in parts]).bincount().tolist() == [5000] * 10
    histograms = torch.zeros(3, 256, dtype=torch.float64)
    for part in parts:
        histograms += torch.stack([part.images[:, channel].flatten().bincount(minlength=256) for channel in range(3)])
    levels, shares = torch.arange(256.0, dtype=torch.float64), histograms / histograms.sum(1, keepdim=True)
    mean = (shares * levels).sum(1)
    deviation = (shares * (levels - mean[:, None]).square()).sum(1).sqrt()
    published = torch.tensor(
        [[125.30691805, 122.95039414, 113.86538318], [62.99321928, 62.08870764, 66.70489964]], dtype=torch.float64
    )
    torch.testing.assert_close(torch.stack([mean, deviation]), published, rtol=0, atol=1e-8)


def test_mnist_m_shows_the_digits_of_mnist():
    labels = read_npz(real("mnist_test.npz")).labels
    assert torch.equal(read_npz(real("mnist_m_test.npz")).labels, labels[:9001])


def test_other_arrays():
    group = torch.from_numpy(read_npz_array(real("breakhis400x_96x96.npz"), "stain_group")).long()
    assert group.bincount().tolist() == [929, 248, 493]
    assert read_npz_array(real("usps_test.npz"), "milli").shape == (2007, 16, 16)


def test_frost():
    pictures = read_pictures_npz(real("frost_overlays.npz"))
    assert {name: tuple(picture.shape) for name, picture in pictures.items()} == {
        "frost1": (3, 600, 900),
        "frost2": (3, 315, 560),
        "frost3": (3, 315, 560),
        "frost4": (3, 350, 527),
        "frost5": (3, 495, 660),
        "frost6": (3, 323, 485),
    }
