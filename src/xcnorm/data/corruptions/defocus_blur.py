"""Defocus blur: each point becomes a disk, as behind a lens that is out of focus."""

import torch
from torch import Tensor

from xcnorm.data.corruptions._filters import correlation, multiply
from xcnorm.data.corruptions.corruption import Fields, register_corruption

_NEGLIGIBLE = 1e-9  # what a part of the kernel may weigh without showing in 8 bits


@register_corruption(
    "defocus_blur",
    "blur",
    published=4,
    cifar=((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
    imagenet=((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
)
def _apply(images: Tensor, fields: Fields, constants: tuple[float, float]) -> Tensor:
    # Any kernel is a sum of products of a column and a row; one as even as a disk needs only a few of them.
    columns, weights, rows = torch.linalg.svd(_disk(*constants))
    count = int((weights > _NEGLIGIBLE).sum())
    height, width = images.shape[2:]
    down = [correlation(column, height, "reflect_101") for column in (columns * weights).T[:count]]
    across = [correlation(row, width, "reflect_101") for row in rows[:count]]
    return multiply(images, torch.stack(down), torch.stack(across))


def _disk(radius: float, softness: float) -> Tensor:
    """The kernel: a disk on pixels, whose jagged edge is softened with a small Gaussian of deviation `softness`."""
    reach, taps = (8, 3) if radius <= 8 else (int(radius), 5)
    square = torch.arange(-reach, reach + 1, dtype=torch.float64).square()
    disk = (square.unsqueeze(1) + square <= radius**2).double()
    offsets = torch.arange(taps, dtype=torch.float64) - taps // 2
    kernel = (-0.5 * (offsets / softness).square()).exp()
    soften = correlation(kernel / kernel.sum(), len(square), "reflect_101")
    return soften @ (disk / disk.sum()) @ soften.T
