"""Zoom blur: the camera rushes towards what it sees."""

from collections import Counter

import numpy as np
import torch
from torch import Tensor

from xcnorm.data.corruptions._filters import multiply, zoom, zoom_sizes
from xcnorm.data.corruptions.corruption import Fields, register_corruption


@register_corruption(
    "zoom_blur",
    "blur",
    published=7,
    # Where the factors end, and the step between them.
    cifar=((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
    imagenet=((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
)
def _apply(images: Tensor, fields: Fields, constants: tuple[float, float]) -> Tensor:
    # NumPy decides whether the last factor belongs to the range, because the published generator left it to NumPy.
    factors = np.arange(1, *constants).tolist()
    height, width = images.shape[2:]
    # On a small image close factors come to the same thing; it is done once and counted.
    counts = Counter((zoom_sizes(height, factor), zoom_sizes(width, factor)) for factor in factors)
    rows = [count * zoom(height, *sizes) for (sizes, _), count in counts.items()]
    columns = [zoom(width, *sizes) for _, sizes in counts]
    return (images + multiply(images, torch.stack(rows), torch.stack(columns))) / (len(factors) + 1)
