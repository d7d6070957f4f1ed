"""The edges of drops and the light on them, as OpenCV's functions on 8-bit images give them.

All of it is arithmetic on whole numbers, held in int32, because a value that is off by one moves edges.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from xcnorm.data.corruptions._filters import Border, fold

_TAN = 13573  # the tangent of 22.5 degrees, in units of 2^-15


def edges(images: Tensor, low: int, high: int) -> Tensor:
    """Canny's edges of images ``(N, H, W)``, int32 in 0..255: where the slope has a ridge.

    A ridge counts where the slope is above `high`, and as far as it goes on above `low`.
    """
    padded = _pad(images, "nearest")
    left, middle, right = padded[..., :-2], padded[..., 1:-1], padded[..., 2:]
    across = right - left
    down = left + 2 * middle + right
    across = across[:, :-2] + 2 * across[:, 1:-1] + across[:, 2:]
    down = down[:, 2:] - down[:, :-2]
    slope = across.abs() + down.abs()

    around = F.pad(slope, (1, 1, 1, 1))
    height, width = slope.shape[1:]

    def beside(y: int, x: int) -> Tensor:
        return around[:, 1 + y : 1 + y + height, 1 + x : 1 + x + width]

    flat, steep = across.abs() * _TAN, down.abs() << 15
    ridge_across = (slope > beside(0, -1)) & (slope >= beside(0, 1))
    ridge_down = (slope > beside(-1, 0)) & (slope >= beside(1, 0))
    falling = (slope > beside(-1, -1)) & (slope > beside(1, 1))
    rising = (slope > beside(-1, 1)) & (slope > beside(1, -1))
    oblique = torch.where((across < 0) != (down < 0), rising, falling)
    ridge = torch.where(steep < flat, ridge_across, oblique)
    ridge = torch.where(steep > flat + (across.abs() << 16), ridge_down, ridge)
    weak = ridge & (slope > low)
    return _connected(weak & (slope > high), weak)


def _connected(seeds: Tensor, allowed: Tensor) -> Tensor:
    """What can be reached from the seeds, step by step to any of eight neighbours, over what is allowed."""
    while True:
        tall = seeds.clone()
        tall[:, 1:] |= seeds[:, :-1]
        tall[:, :-1] |= seeds[:, 1:]
        grown = tall.clone()
        grown[..., 1:] |= tall[..., :-1]
        grown[..., :-1] |= tall[..., 1:]
        grown &= allowed
        if torch.equal(grown, seeds):
            return seeds
        seeds = grown


def distance(targets: Tensor, limit: int) -> Tensor:
    """How far each pixel of ``(N, H, W)`` is from the nearest target, at most `limit`; int32, in units of 2^-16.

    Distance is the length of the shortest way by steps to a neighbour (1), a diagonal one (1.4) or a knight's move away
    (2.1969). A shortest way has steps of two kinds at most, which may come in any order; so it is enough to take each
    kind of step in turn, any number of times, which is once, twice, four times, ...
    """
    far = limit << 16
    result = torch.full(targets.shape, far, dtype=torch.int32, device=targets.device).masked_fill_(targets, 0)
    for reach, cost in ((1, 65536), (2, 91750), (5, 143976)):
        for y, x in [(y, x) for y in range(-2, 3) for x in range(-2, 3) if y * y + x * x == reach]:
            times = 1
            while times * cost < far:
                _relax(result, times * y, times * x, times * cost)
                times *= 2
    return result


def _relax(result: Tensor, y: int, x: int, cost: int) -> None:
    """Let each pixel be no further away than the pixel `y` below and `x` to the right, plus the cost."""
    height, width = result.shape[1:]
    if abs(y) < height and abs(x) < width:
        here = result[:, max(-y, 0) : height - max(y, 0), max(-x, 0) : width - max(x, 0)]
        there = result[:, max(y, 0) : height + min(y, 0), max(x, 0) : width + min(x, 0)]
        here.copy_(torch.minimum(here, there + cost))


def correlate(images: Tensor, kernel: tuple[tuple[int, int, int], ...]) -> Tensor:
    """Correlate images ``(N, H, W)`` with a 3x3 kernel of whole numbers, mirrored at the border."""
    padded = _pad(images, "reflect_101")
    height, width = images.shape[1:]
    total = torch.zeros_like(images)
    for y, row in enumerate(kernel):
        for x, weight in enumerate(row):
            total += weight * padded[:, y : y + height, x : x + width]
    return total


def equalise(images: Tensor, levels: int) -> Tensor:
    """Spread the grey levels of images ``(N, H, W)``, int32 in ``0 .. levels - 1``, evenly over 0..255."""
    counts = torch.stack([(images == level).sum((1, 2)) for level in range(levels)], 1)
    at_most = counts.cumsum(1)
    darkest = (counts > 0).int().argmax(1, keepdim=True)
    first = counts.gather(1, darkest)
    pixels = images.shape[1:].numel()
    others = (pixels - first).float()
    scale = torch.full_like(others, 255) / others  # a plain 255 would be multiplied by the rounded reciprocal
    spread = ((at_most - first).clamp(min=0).float() * scale).round()
    # An image of one level only stays as it is.
    spread = spread.where(first < pixels, darkest.float()).int()
    return spread.gather(1, images.flatten(1).long()).view(images.shape)


def _pad(images: Tensor, border: Border) -> Tensor:
    """One pixel on each side."""
    rows, columns = (fold(torch.arange(-1, size + 1, device=images.device), size, border) for size in images.shape[1:])
    return images[:, rows][:, :, columns]
