"""Data roots in miniature: as many images as were published, but only a few pixels each."""

from pathlib import Path

import numpy as np
import torch

from xcnorm.data.readers import write_npz

COUNTS = {
    "mnist_train10k": 10000,
    "mnist_test": 10000,
    "usps_test": 2007,
    "mnist_m_test": 9001,
    "svhn_test_28x28": 26032,
}
GREY = {"mnist_train10k", "mnist_test", "usps_test"}


def fill(root: Path, *names: str, pixels: int = 4) -> None:
    """Write compact files of random images; the label of image i is i modulo 10."""
    random = np.random.default_rng(0)
    for name in names:
        count = COUNTS.get(name, 10000)
        channels = 1 if name in GREY else 3
        images = torch.from_numpy(random.integers(0, 256, (count, channels, pixels, pixels), dtype=np.uint8))
        write_npz(root / f"{name}.npz", images, torch.arange(count) % 10)
