"""The filters that several corruptions are made of.

Filters that do the same to every image are matrices: the rows and the columns of the image are multiplied by one each,
in which what happens at the border is already worked out. The products are sums whose order depends on the size of the
batch and on the device, so they are taken in double precision: what the order changes is then far below 8 bits.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

Border = Literal["nearest", "reflect", "reflect_101"]


def fold(positions: Tensor, size: int, border: Border) -> Tensor:
    """Say which of `size` pixels in a row stands for each position, int64, inside the row or beyond its ends.

    Args:
        positions: Any whole numbers.
        size: Length of the row ``a b c d``, at least 2.
        border: What lies beyond: ``"nearest"`` is ``a a | a b c d | d d``, ``"reflect"`` is ``b a | a b c d | d c``
            and ``"reflect_101"`` is ``c b | a b c d | c b``.
    """
    if border == "nearest":
        return positions.clamp(0, size - 1)
    period = 2 * size if border == "reflect" else 2 * size - 2
    inside = positions % period
    return torch.minimum(inside, (period - 1 if border == "reflect" else period) - inside)


def correlation(kernel: Tensor, size: int, border: Border) -> Tensor:
    """The matrix ``(size, size)`` that correlates a row of pixels with a kernel of odd length; both are float64."""
    taps = torch.arange(len(kernel)) - len(kernel) // 2
    sources = fold(torch.arange(size).unsqueeze(1) + taps, size, border)
    return torch.zeros(size, size, dtype=torch.float64).scatter_add_(1, sources, kernel.expand(size, -1))


def multiply(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Multiply images by matrices from both sides, and add up.

    Args:
        images: ``(N, C, H, W)``.
        rows: ``(K, H, H)``, float64, each to be multiplied from the left.
        columns: ``(K, W, W)``, float64, each to be multiplied, transposed, from the right.

    Returns:
        The sum of the `K` products, in the images' type.
    """
    exact = images.double().flatten(0, 1)
    total = torch.zeros_like(exact)
    for left, right in zip(rows.to(exact.device), columns.to(exact.device), strict=True):
        total.baddbmm_(left.expand(len(exact), -1, -1), exact @ right.T)
    return total.to(images.dtype).view(images.shape)


def gaussian(images: Tensor, sigma: float, *, truncate: float = 4.0, mode: Literal["nearest", "reflect"]) -> Tensor:
    """Smooth images ``(N, C, H, W)`` with a Gaussian kernel.

    Args:
        images: Floating point, of any range.
        sigma: Standard deviation in pixels; 0 changes nothing.
        truncate: The kernel is cut off at this many deviations, rounded to whole pixels. It may be longer than the
            image.
        mode: What lies beyond the border; see `fold`.
    """
    radius = int(truncate * sigma + 0.5)
    if radius == 0:
        return images
    kernel = (-0.5 * (torch.arange(-radius, radius + 1, dtype=torch.float64) / sigma).square()).exp()
    kernel = kernel / kernel.sum()
    rows, columns = (correlation(kernel, size, mode).unsqueeze(0) for size in images.shape[2:])
    return multiply(images, rows, columns)


def motion(images: Tensor, radius: float, sigma: float, angles: Tensor) -> Tensor:
    """Smear images ``(N, C, H, W)`` along a line, to one side, as ImageMagick does; the result has 8 bits.

    Args:
        images: Values in [0, 1].
        radius: Half the length of the line in pixels.
        sigma: Standard deviation, in pixels, of the half Gaussian that weighs the points of the line.
        angles: ``(N,)``: the line's direction in degrees, from the x-axis towards the y-axis, which points down.
    """
    steps = torch.arange(2 * math.ceil(radius) + 1, dtype=torch.float64)
    weights = (-0.5 * (steps / sigma).square()).exp()
    weights = weights / weights.sum()
    turns = angles.double().deg2rad().unsqueeze(1)
    # In double precision, because a direction that is off by a hair moves a point to the next pixel.
    right = (steps.to(turns.device) * turns.cos() - 0.5).ceil().long()
    down = (steps.to(turns.device) * turns.sin() - 0.5).ceil().long()
    height, width = images.shape[2:]
    y, x = torch.arange(height, device=images.device), torch.arange(width, device=images.device)
    total = torch.zeros_like(images)
    for weight, dy, dx in zip(weights.tolist(), down.split(1, 1), right.split(1, 1), strict=True):
        rows, columns = fold(y + dy, height, "nearest"), fold(x + dx, width, "nearest")
        total += weight * _pixels(images, rows.unsqueeze(2), columns.unsqueeze(1))
    return (total * 255 + 0.5).floor() / 255


def zoom_sizes(size: int, factor: float) -> tuple[int, int]:
    """How many pixels in the middle of a row of `size` are zoomed by a factor of at least 1, and to how many."""
    crop = math.ceil(size / factor)
    return crop, round(crop * factor)


def zoom(size: int, crop: int, zoomed: int) -> Tensor:
    """The matrix ``(size, size)``, float64, that zooms into the middle of a row of pixels.

    Args:
        size: Length of the row, before and after.
        crop: How many pixels are zoomed; the end points stay end points.
        zoomed: To how many they are zoomed, of which `size` are kept; at least `size`.
    """
    position = (torch.arange(size, dtype=torch.float64) + (zoomed - size) // 2) * ((crop - 1) / (zoomed - 1))
    before = position.long().clamp(max=max(crop - 2, 0))
    fraction = (position - before).unsqueeze(1)
    start = (size - crop) // 2
    pixels = torch.eye(size, dtype=torch.float64)
    return pixels[start + before].lerp(pixels[(start + before + 1).clamp(max=size - 1)], fraction)


def clipped_zoom(images: Tensor, factor: float) -> Tensor:
    """Zoom into the middle of images ``(N, C, H, W)`` by a factor of at least 1, linearly, keeping their size."""
    rows, columns = (zoom(size, *zoom_sizes(size, factor)).unsqueeze(0) for size in images.shape[2:])
    return multiply(images, rows, columns)


def bilinear(images: Tensor, y: Tensor, x: Tensor, border: Border) -> Tensor:
    """Look images ``(N, C, H, W)`` up between their pixels, at rows `y` and columns `x`, ``(N, H, W)`` in float64."""
    height, width = images.shape[2:]
    top, left = y.floor(), x.floor()
    down, right = ((y - top).to(images.dtype).unsqueeze(1), (x - left).to(images.dtype).unsqueeze(1))
    upper, lower = (fold(top.long() + step, height, border) for step in (0, 1))
    near, far = (fold(left.long() + step, width, border) for step in (0, 1))
    above = _pixels(images, upper, near) * (1 - right) + _pixels(images, upper, far) * right
    below = _pixels(images, lower, near) * (1 - right) + _pixels(images, lower, far) * right
    return above * (1 - down) + below * down


def _pixels(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The pixels of images ``(N, C, H, W)`` at rows and columns that broadcast to ``(N, H, W)``."""
    where = (rows * images.shape[3] + columns).flatten(1).unsqueeze(1)
    return images.flatten(2).gather(2, where.expand(-1, images.shape[1], -1)).view(images.shape)
