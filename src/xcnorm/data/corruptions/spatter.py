"""Spatter: drops of water on the lens, or splashes of mud."""

from typing import NamedTuple

import torch
from torch import Tensor

from xcnorm.data.corruptions._filters import gaussian
from xcnorm.data.corruptions._liquid import correlate, distance, edges, equalise
from xcnorm.data.corruptions.corruption import Fields, Shape, register_corruption
from xcnorm.data.streams import Stream

_WATER = (175, 238, 238)
_MUD = (63, 42, 20)

_BOX = ((1, 1, 1),) * 3
_LIGHT = ((-2, -1, 0), (-1, 1, 1), (0, 1, 2))  # falls from one corner


class _Constants(NamedTuple):
    """Of one severity.

    Attributes:
        mean: Of the random layer that the liquid is where it is high.
        deviation: Of the same.
        smoothing: The deviation of the Gaussian kernel that the layer is smoothed with, in pixels.
        threshold: The layer is wet above it.
        strength: Of water: how opaque it is. Of mud: the deviation of the Gaussian kernel that softens its edge.
        mud: Mud, or else water.
    """

    mean: float
    deviation: float
    smoothing: float
    threshold: float
    strength: float
    mud: bool


def _draw(stream: Stream, shape: Shape, constants: _Constants) -> Fields:
    return {"layer": stream.normal(shape.height, shape.width)}


@register_corruption(
    "spatter",
    "digital",
    published=18,
    cifar=(
        _Constants(0.62, 0.1, 0.7, 0.70, 0.5, mud=False),
        _Constants(0.65, 0.1, 0.8, 0.70, 0.5, mud=False),
        _Constants(0.65, 0.3, 1.0, 0.69, 0.5, mud=False),
        _Constants(0.65, 0.1, 0.7, 0.69, 0.6, mud=True),
        _Constants(0.65, 0.1, 0.5, 0.68, 0.6, mud=True),
    ),
    imagenet=(
        _Constants(0.65, 0.3, 4, 0.69, 0.6, mud=False),
        _Constants(0.65, 0.3, 3, 0.68, 0.6, mud=False),
        _Constants(0.65, 0.3, 2, 0.68, 0.5, mud=False),
        _Constants(0.65, 0.3, 1, 0.65, 1.5, mud=True),
        _Constants(0.67, 0.4, 1, 0.65, 1.5, mud=True),
    ),
    draw=_draw,
)
def _apply(images: Tensor, fields: Fields, constants: _Constants) -> Tensor:
    # In double precision, because thresholds follow that make much of little.
    noise = constants.mean + constants.deviation * fields["layer"].double().unsqueeze(1)
    layer = gaussian(noise, constants.smoothing, mode="nearest")
    if constants.mud:
        mud = gaussian((layer > constants.threshold).double(), constants.strength, mode="nearest")
        mud = mud.where(mud >= 0.8, 0).float()
        return images * (1 - mud) + mud * _colour(_MUD, images)
    water = constants.strength * _water(layer.where(layer >= constants.threshold, 0).squeeze(1))
    return images + water.unsqueeze(1) * _colour(_WATER, images)


def _water(layer: Tensor) -> Tensor:
    """How bright water ``(N, H, W)`` of some depth shines, between 0 and 1: at its edges, on the side of the light."""
    depth = (layer * 255).int() & 255  # a depth above 255 starts from 0 again, as in the published images
    away = distance(edges(depth, 50, 150), limit=20)
    away = correlate(away, _BOX) // (9 << 16)
    lit = correlate(equalise(away, levels=21), _LIGHT).clamp(0, 255)
    lit = (2 * correlate(lit, _BOX) + 9) // 18  # the mean of nine, rounded
    shine = (depth * lit).float()
    return shine / shine.amax((1, 2), keepdim=True).clamp(min=1)


def _colour(colour: tuple[int, int, int], like: Tensor) -> Tensor:
    return torch.tensor(colour, dtype=like.dtype, device=like.device).view(1, 3, 1, 1) / 255
