"""Benchmarks from files as they were published, in miniature; and from the real ones, where there are any."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.data.benchmarks.roots import fill
from tests.data.readers import writers
from xcnorm import data
from xcnorm.data.benchmarks import digits
from xcnorm.data.download import check

PUBLISHED = [(name, file) for name in data.list_benchmarks() for file in data.card(name).files]


@pytest.fixture
def any_count(monkeypatch):
    """Parts may have any number of images."""
    for name in ("_TEST", "_SVHN", "_MNIST_M", "_SYN", "_USPS"):
        part = getattr(digits, name)
        monkeypatch.setattr(digits, name, replace(part, forms=tuple(replace(form, count=None) for form in part.forms)))


@pytest.mark.parametrize(("name", "file"), PUBLISHED, ids=[file.path for _, file in PUBLISHED])
def test_published_files_are_what_was_published(name, file):
    root = os.environ.get("XCNORM_DATA")
    if not root:
        pytest.skip("XCNORM_DATA names no data root")
    places = [Path(root, file.path), Path(root, Path(file.path).name)]
    path = next((place for place in places if place.exists()), None)
    if path is None:
        pytest.skip(f"{file.path} is not in {root}")
    check(path, file)


def test_digits_from_published_files(any_count, tmp_path):
    fill(tmp_path, "mnist_train10k")
    labels = writers.digits(20)
    grey, colour = writers.pixels(20, 28, 28), writers.pixels(20, 32, 32, 3, seed=1)
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    images_file, labels_file = writers.idx_pair(raw, grey, labels)
    images_file.rename(raw / "t10k-images-idx3-ubyte.gz")
    labels_file.rename(raw / "t10k-labels-idx1-ubyte.gz")
    writers.mat(tmp_path / "test_32x32.mat", colour, labels)
    writers.mat(tmp_path / "synth_test_32x32.mat", colour, labels)
    writers.tar(tmp_path / "mnist_m.tar.gz", writers.mnist_m(colour, labels), "w:gz")
    values = writers.pixels(20, 256, seed=2) / 127.5 - 1
    writers.usps_libsvm(tmp_path / "usps.t.bz2", values, labels)
    benchmark = data.load("digits", tmp_path)
    assert benchmark.missing == {}
    assert list(benchmark.targets) == ["svhn", "mnist_m", "syn", "usps", "syn_rendered"]
    assert torch.equal(benchmark.validation.labels, torch.from_numpy(labels).long())
    for name in ("svhn", "mnist_m", "syn"):
        domain = benchmark.targets[name]
        assert domain.note == ""
        assert torch.equal(domain.images, torch.from_numpy(colour).permute(0, 3, 1, 2))
        assert torch.equal(domain.labels, torch.from_numpy(labels).long())
    assert benchmark.targets["usps"].images.shape == (20, 1, 32, 32)


def test_the_later_mnist_m(any_count, tmp_path, monkeypatch):
    fill(tmp_path, "mnist_train10k", "mnist_test")
    colour = writers.pixels(10000, 28, 28, 3)
    writers.mnist_m_keras(tmp_path / "keras_mnistm.pkl.gz", test=colour)
    benchmark = data.load("digits", tmp_path, mnist_m="keras_10000")
    domain = benchmark.targets["mnist_m"]
    assert torch.equal(domain.labels, benchmark.validation.labels)
    assert torch.equal(domain.images, data.transforms.resize(torch.from_numpy(colour).permute(0, 3, 1, 2), 32))
