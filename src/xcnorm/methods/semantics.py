"""Semantic transformations, as AdvST tunes them: colour and geometry of images, with numbers that have gradients.

Each takes images ``(N, C, H, W)`` with values from 0 to 1, or beyond where another transformation has left them, and
numbers ``(N, P)``, those of each image. Where a transformation has steps, its gradient to the image is that of leaving
it as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import permutations
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

_HOLES = 8
_LEVELS = 256
_SHIFT = 0.1  # of the width: the largest translation


class Transformation(NamedTuple):
    """One transformation.

    Attributes:
        ranges: Between which numbers each of its numbers is drawn at first.
        apply: From images and numbers to images.
    """

    ranges: Sequence[tuple[float, float]]
    apply: Callable[[Tensor, Tensor], Tensor]


def transformations(hole: float) -> dict[str, Transformation]:
    """All twelve, by name.

    Args:
        hole: The side of the holes that `cut_out` cuts, as a share of the image's.
    """
    holes = [(0.0, 1.0)] * (3 + 2 * _HOLES)
    return {
        "hsv": Transformation([(-1, 1)] * 3, shift_hsv),
        "rotate": Transformation([(0.01, 1)], rotate),
        "translate": Transformation([(-1, 1)] * 2, translate),
        "invert": Transformation([(0.5, 1)], invert),
        "shear": Transformation([(-0.3, 0.3)] * 2, shear),
        "contrast": Transformation([(0.1, 1.9)], contrast),
        "sharpness": Transformation([(0, 1)], sharpness),
        "solarise": Transformation([(-0.5, 0.5)], solarise),
        "scale": Transformation([(0.5, 2)], scale),
        "equalise": Transformation([], equalise),
        "posterise": Transformation([(0, 9)], posterise),
        "cut_out": Transformation(holes, partial(cut_out, hole=hole)),
    }


def chains(names: Sequence[str], longest: int) -> list[list[tuple[str, ...]]]:
    """All chains of different transformations, by length from 1; a turn of the colours only comes first.

    Args:
        names: Of the transformations.
        longest: The largest length.
    """
    return [
        [chain for chain in permutations(names, length) if "hsv" not in chain[1:]] for length in range(1, longest + 1)
    ]


def shift_hsv(images: Tensor, numbers: Tensor) -> Tensor:
    """Add to hue (in radians), saturation and value; for images without a gradient of their own."""
    value, least = images.amax(1), images.amin(1)
    chroma = value - least
    red, green, blue = images.unbind(1)
    divisor = torch.where(chroma == 0, 1, chroma)  # a grey pixel has the hue of red
    hue = torch.where(
        red == value,
        (green - blue) / divisor,
        torch.where(green == value, (blue - red) / divisor + 2, (red - green) / divisor + 4),
    )
    saturation = chroma / torch.where(value == 0, 1, value)
    by_hue, by_saturation, by_value = (each.view(-1, 1, 1) for each in numbers.unbind(1))
    hue, saturation, value = hue + by_hue * (3 / math.pi), saturation + by_saturation, value + by_value
    # Around the circle a channel falls from the value to the least one, over one sixth, and rises again.
    around = (hue[:, None] + torch.tensor([5.0, 3.0, 1.0], device=images.device).view(3, 1, 1).to(images)) % 6
    fall = around.minimum(4 - around).clamp(0, 1)
    return (value[:, None] * (1 - saturation[:, None] * fall)).clamp(-10, 10)


def rotate(images: Tensor, numbers: Tensor) -> Tensor:
    """Turn about the centre, against the clock, by a share from 0.01 to 1 of the circle."""
    angle = numbers[:, 0].clamp(0.01, 1) * (2 * math.pi)
    sine, cosine = angle.sin(), angle.cos()
    return _about_centre(images, cosine, -sine, sine, cosine)


def scale(images: Tensor, numbers: Tensor) -> Tensor:
    """Enlarge about the centre by a factor from 0.5 to 2."""
    factor = 1 / numbers[:, 0].clamp(0.5, 2)
    none = torch.zeros_like(factor)
    return _about_centre(images, factor, none, none, factor)


def translate(images: Tensor, numbers: Tensor) -> Tensor:
    """Move to the right and down by shares from -1 to 1 of a tenth of the width."""
    right, down = (-numbers.clamp(-1, 1) * (_SHIFT * images.shape[-1])).unbind(1)
    one, none = torch.ones_like(right), torch.zeros_like(right)
    return _sampled(images, one, none, right, none, one, down)


def shear(images: Tensor, numbers: Tensor) -> Tensor:
    """Slant rows and columns, about the first pixel."""
    across, along = numbers.unbind(1)
    determinant = 1 - across * along
    one, none = 1 / determinant, torch.zeros_like(across)
    return _sampled(images, one, -across / determinant, none, -along / determinant, one, none)


def invert(images: Tensor, numbers: Tensor) -> Tensor:
    """Subtract from a number from 0.5 to 1."""
    return _each(numbers.clamp(0.5, 1)) - images


def contrast(images: Tensor, numbers: Tensor) -> Tensor:
    """Multiply by a factor from 0.1 to 1.9 and cut to the range of an image."""
    return (images * _each(numbers.clamp(0.1, 1.9))).clamp(0, 1)


def sharpness(images: Tensor, numbers: Tensor) -> Tensor:
    """Mix with a smoothed image, which has the share that is missing to 1; the border stays as it is."""
    channels = images.shape[1]
    kernel = torch.ones(3, 3, device=images.device, dtype=images.dtype)
    kernel[1, 1].fill_(5)
    smooth = F.conv2d(images, (kernel / 13).expand(channels, 1, 3, 3), groups=channels).clamp(0, 1)
    whole = F.pad(smooth, (1, 1, 1, 1))
    inner = F.pad(torch.ones_like(smooth[:1, :1]), (1, 1, 1, 1))
    return torch.lerp(torch.lerp(images, whole, inner), images, _each(numbers.clamp(0, 1)))


def solarise(images: Tensor, numbers: Tensor) -> Tensor:
    """Add a number from -0.499 to 0.499, then invert what is bright."""
    moved = (images + _each(numbers.clamp(-0.499, 0.499))).clamp(0, 1)
    return torch.where(moved < 0.5, moved, 1 - moved)


def equalise(images: Tensor, numbers: Tensor) -> Tensor:
    """Make all levels of a channel about equally frequent."""
    with torch.no_grad():
        levels = _levels(images).flatten(2)
        counts = torch.zeros(*levels.shape[:2], _LEVELS, device=images.device, dtype=images.dtype)
        counts.scatter_add_(2, levels, torch.ones_like(levels, dtype=images.dtype))
        step = ((levels.shape[2] - counts.gather(2, levels.amax(2, keepdim=True))) / (_LEVELS - 1)).floor()
        below = counts.cumsum(2) - counts
        table = ((below + (step / 2).floor()) / step.clamp_min(1)).floor().clamp(0, _LEVELS - 1)
        equal = table.gather(2, levels).view(images.shape) / (_LEVELS - 1)
        equal = torch.where(step[..., None] == 0, images, equal)
    return _straight(images, equal)


def posterise(images: Tensor, numbers: Tensor) -> Tensor:
    """Keep so many of the eight bits of a level, rounded down; which is nothing that could be learned."""
    with torch.no_grad():
        unit = 2 ** (8 - numbers.floor().clamp(0, 8))
        coarse = (_levels(images) / _each(unit)).floor() * _each(unit) / (_LEVELS - 1)
    return _straight(images, coarse)


def cut_out(images: Tensor, numbers: Tensor, hole: float) -> Tensor:
    """Fill eight squares with one colour; only the colour can be learned, not the places."""
    colour, places = numbers[:, :3], numbers[:, 3:].detach().view(-1, _HOLES, 2)
    inside = []
    for axis, size in enumerate(images.shape[2:]):
        side = max(1, int(min(images.shape[2:]) * hole))
        start = (places[:, :, axis, None] * max(1, size - side)).floor().clamp_max(size - side)
        pixel = torch.arange(size, device=images.device)
        inside.append((pixel >= start) & (pixel < start + side))
    rows, columns = inside
    covered = (rows[..., :, None] & columns[..., None, :]).any(1)[:, None]
    return torch.where(covered, colour[:, :, None, None], images)


def _each(numbers: Tensor) -> Tensor:
    """One number for each image, ``(N, 1, 1, 1)``."""
    return numbers.view(-1, 1, 1, 1)


def _levels(images: Tensor) -> Tensor:
    """From 0 to 255."""
    return (images.clamp(0, 1) * (_LEVELS - 1)).round().long()


def _straight(images: Tensor, changed: Tensor) -> Tensor:
    """The changed images, with the gradient of the images."""
    return changed + (images - images.detach())


def _about_centre(images: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
    """Look at ``M (p - centre) + centre`` for a pixel p, with M = (a b, c d)."""
    x, y = (images.shape[3] - 1) / 2, (images.shape[2] - 1) / 2
    return _sampled(images, a, b, x - a * x - b * y, c, d, y - c * x - d * y)


def _sampled(images: Tensor, a: Tensor, b: Tensor, x: Tensor, c: Tensor, d: Tensor, y: Tensor) -> Tensor:
    """Look at the place (a b, c d) p + (x, y) for a pixel p = (column, row), bilinearly; outside it is black."""
    height, width = images.shape[2:]
    across, down = max(1, width - 1) / 2, max(1, height - 1) / 2
    # The same map for places from -1, the first pixel's centre, to 1, the last one's.
    to_x = torch.stack([a, b * down / across, (a * across + b * down + x) / across - 1], 1)
    to_y = torch.stack([c * across / down, d, (c * across + d * down + y) / down - 1], 1)
    grid = F.affine_grid(torch.stack([to_x, to_y], 1), list(images.shape), align_corners=True)
    return F.grid_sample(images, grid, align_corners=True)
