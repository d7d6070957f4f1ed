"""Snow: bright flakes that fall past the camera, in front of a paler scene."""

from typing import NamedTuple

import torch
from torch import Tensor

from xcnorm.data.colour import grey_level
from xcnorm.data.corruptions._filters import clipped_zoom, motion
from xcnorm.data.corruptions.corruption import Fields, Shape, register_corruption
from xcnorm.data.streams import Stream


class _Constants(NamedTuple):
    mean: float  # of the noise that the flakes are cut out of
    deviation: float
    zoom: float  # how large the flakes are
    threshold: float  # what is below it is no flake
    radius: float  # how far the flakes fall while the shutter is open
    sigma: float
    scene: float  # how much of the scene's colours is left


def _draw(stream: Stream, shape: Shape, constants: _Constants) -> Fields:
    return {"noise": stream.normal(1, shape.height, shape.width), "angle": 90 * stream.uniform() - 135}


@register_corruption(
    "snow",
    "weather",
    published=8,
    cifar=(
        _Constants(0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        _Constants(0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        _Constants(0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        _Constants(0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        _Constants(0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
    imagenet=(
        _Constants(0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        _Constants(0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        _Constants(0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        _Constants(0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        _Constants(0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    ),
    draw=_draw,
)
def _apply(images: Tensor, fields: Fields, constants: _Constants) -> Tensor:
    noise = clipped_zoom(constants.mean + constants.deviation * fields["noise"], constants.zoom)
    flakes = torch.where(noise < constants.threshold, 0, noise).clamp(0, 1)
    flakes = motion((flakes * 255).floor() / 255, constants.radius, constants.sigma, fields["angle"])
    pale = torch.maximum(images, grey_level(*images.split(1, 1)) * 1.5 + 0.5)
    return constants.scene * images + (1 - constants.scene) * pale + flakes + flakes.flip(2, 3)
