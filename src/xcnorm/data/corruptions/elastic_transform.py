"""Elastic transform: the picture is skewed as a whole, then stretched and squeezed in places."""

import torch
from torch import Tensor

from xcnorm.data.corruptions._filters import bilinear, gaussian
from xcnorm.data.corruptions.corruption import Fields, Shape, register_corruption
from xcnorm.data.streams import Stream

_Constants = tuple[float, float, float]  # strength and smoothness of the waves, and reach of the skew, in pixels


def _draw(stream: Stream, shape: Shape, constants: _Constants) -> Fields:
    _, _, reach = constants
    corners = reach * (2 * stream.uniform(3, 2) - 1)
    return {"corners": corners, "waves": 2 * stream.uniform(2, shape.height, shape.width) - 1}


def _pixels(size: int, *fractions: float) -> _Constants:
    """The published generator gives its constants as fractions of an image's size."""
    strength, smoothness, reach = (size * fraction for fraction in fractions)
    return strength, smoothness, reach


@register_corruption(
    "elastic_transform",
    "digital",
    published=13,
    cifar=(
        _pixels(32, 0, 0, 0.08),
        _pixels(32, 0.05, 0.2, 0.07),
        _pixels(32, 0.08, 0.06, 0.06),
        _pixels(32, 0.1, 0.04, 0.05),
        _pixels(32, 0.1, 0.03, 0.03),
    ),
    imagenet=(
        # 244 is a slip of the published generator, which worked on 224 pixels.
        _pixels(244, 2, 0.7, 0.1),
        _pixels(244, 2, 0.08, 0.2),
        _pixels(244, 0.05, 0.01, 0.02),
        _pixels(244, 0.07, 0.01, 0.02),
        _pixels(244, 0.12, 0.01, 0.02),
    ),
    draw=_draw,
)
def _apply(images: Tensor, fields: Fields, constants: _Constants) -> Tensor:
    strength, smoothness, _ = constants
    images = _skew(images, fields["corners"])
    waves = strength * gaussian(fields["waves"], smoothness, truncate=3, mode="reflect")
    right, down = waves.double().unbind(1)
    y, x = _grid(images)
    return bilinear(images, y + down, x + right, "reflect")


def _skew(images: Tensor, shifts: Tensor) -> Tensor:
    """Apply the affine map that moves three points of the image by ``(N, 3, 2)`` pixels."""
    middle, half = [size // 2 for size in images.shape[2:]], min(images.shape[2:]) // 3
    # The generator's points are (row, column), but OpenCV takes them for (x, y), and so do we.
    far_x, far_y, near_x, near_y = middle[0] + half, middle[1] + half, middle[0] - half, middle[1] - half
    points = shifts.new_tensor([[far_x, far_y], [far_x, near_y], [near_x, near_y]])
    first, second, third = (points + shifts).double().unbind(1)
    # One point differs from the next in one coordinate only, so the map can be read off; so can its inverse.
    per_x, per_y = (second - third) / (2 * half), (first - second) / (2 * half)
    (a, d), (b, e), (c, f) = (part.T for part in (per_x, per_y, second - per_x * far_x - per_y * near_y))
    determinant = a * e - b * d
    scale = torch.where(determinant == 0, 0, 1 / determinant)
    y, x = _grid(images)
    from_x = _position(x, y, e * scale, -b * scale, (b * f - c * e) * scale)
    from_y = _position(x, y, -d * scale, a * scale, (c * d - a * f) * scale)
    return bilinear(images, from_y, from_x, "reflect_101")


def _position(x: Tensor, y: Tensor, per_x: Tensor, per_y: Tensor, offset: Tensor) -> Tensor:
    """One coordinate ``(N, H, W)`` of an affine map, as coarse as OpenCV's: added up in 1/1024, rounded to 1/32."""
    per_x, per_y, offset = (part.view(-1, 1, 1) for part in (per_x, per_y, offset))
    fine = (per_x * x * 1024).round() + ((per_y * y + offset) * 1024).round()
    # A map that squeezes the picture to a line asks for points beyond all numbers; OpenCV has 16 bits for a pixel.
    return (((fine + 16) / 32).floor() / 32).clamp(-(2**15), 2**15 - 1)


def _grid(images: Tensor) -> tuple[Tensor, Tensor]:
    """The pixels' rows ``(H, 1)`` and columns ``(W,)``, float64."""
    y, x = (torch.arange(size, dtype=torch.float64, device=images.device) for size in images.shape[2:])
    return y.unsqueeze(1), x
