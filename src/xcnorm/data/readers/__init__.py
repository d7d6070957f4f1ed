"""Readers of the formats that benchmarks are published in, which take nothing in a file on trust."""

from xcnorm.data.readers.cifar import read_cifar
from xcnorm.data.readers.cifar10c import list_cifar10c, read_cifar10c
from xcnorm.data.readers.idx import read_idx
from xcnorm.data.readers.mat import read_mat
from xcnorm.data.readers.mnist_m import read_mnist_m, read_mnist_m_keras
from xcnorm.data.readers.npz import read_npz, read_npz_array, read_pictures_npz, write_npz
from xcnorm.data.readers.pickles import load_pickle
from xcnorm.data.readers.picture import is_picture, read_picture
from xcnorm.data.readers.usps import read_usps_h5, read_usps_libsvm
from xcnorm.data.readers.wilds import Metadata, read_metadata

__all__ = [
    "Metadata",
    "is_picture",
    "list_cifar10c",
    "load_pickle",
    "read_cifar",
    "read_cifar10c",
    "read_idx",
    "read_mat",
    "read_metadata",
    "read_mnist_m",
    "read_mnist_m_keras",
    "read_npz",
    "read_npz_array",
    "read_picture",
    "read_pictures_npz",
    "read_usps_h5",
    "read_usps_libsvm",
    "write_npz",
]
