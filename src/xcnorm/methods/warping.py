"""Images looked at in other places than their pixels: bilinear sampling, and the places of affine maps."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def sampled(images: Tensor, rows: Tensor, columns: Tensor, beyond: str = "zeros") -> Tensor:
    """What is seen in places between the pixels, interpolated between the four around each.

    Args:
        images: ``(N, C, H, W)``.
        rows: The places' rows in pixels, from 0 on; ``(H', W')``, the same for all images, or ``(N, H', W')``.
        columns: The same of columns.
        beyond: What is beyond the edge: ``"zeros"``, or the ``"border"``.

    Returns:
        ``(N, C, H', W')``.
    """
    count, channels, height, width = images.shape
    grid = torch.stack([(2 * columns + 1) / width - 1, (2 * rows + 1) / height - 1], -1).to(images.dtype)
    if grid.ndim == 3:  # then all images are channels of one, and its places are found once
        seen = F.grid_sample(images.reshape(1, -1, height, width), grid[None], "bilinear", beyond, align_corners=False)
        return seen.view(count, channels, *grid.shape[:2])
    return F.grid_sample(images, grid, "bilinear", beyond, align_corners=False)


def affine_places(maps: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Where each pixel of a new image lies in the old one.

    Args:
        maps: ``(N, 2, 3)``: from the place of a pixel, as column and row in pixels from the image's centre, and 1, to
            the place in the old image, from its centre.
        height: Of the images.
        width: Of the images.

    Returns:
        Rows and columns, ``(N, H, W)``.
    """
    down = torch.arange(height, device=maps.device, dtype=maps.dtype) - (height - 1) / 2
    across = torch.arange(width, device=maps.device, dtype=maps.dtype) - (width - 1) / 2
    row, column = torch.meshgrid(down, across, indexing="ij")
    places = torch.stack([column, row, torch.ones_like(row)]).flatten(1)
    found = (maps @ places).view(-1, 2, height, width)
    return found[:, 1] + (height - 1) / 2, found[:, 0] + (width - 1) / 2
