"""Gaussian blur with a strength of its own for each image."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def blur(images: Tensor, deviation: Tensor, reach: int) -> Tensor:
    """Blur images along both axes; the border is continued outwards.

    Weighted sums of shifted images rather than a convolution, whose order of summation, and with it the last bit, may
    depend on how many images there are.

    Args:
        images: ``(N, C, H, W)``, floating point.
        deviation: ``(N,)``, above 0: the Gaussian's standard deviation in pixels.
        reach: Where the Gaussian is cut off, in pixels.
    """
    offsets = torch.arange(-reach, reach + 1)
    weights = (-0.5 * (offsets / deviation.unsqueeze(1)).square()).exp()
    weights = weights / weights.sum(1, keepdim=True)
    for axis, margins in ((2, (0, 0, reach, reach)), (3, (reach, reach, 0, 0))):
        padded = F.pad(images, margins, mode="replicate")
        images = torch.zeros_like(images)
        for shift, weight in enumerate(weights.unbind(1)):
            images += weight.view(-1, 1, 1, 1) * padded.narrow(axis, shift, images.shape[axis])
    return images
