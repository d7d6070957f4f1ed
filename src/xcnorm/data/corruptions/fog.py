"""Fog: plasma, a random landscape of bright clouds, laid over the image."""

import torch
from torch import Tensor

from xcnorm.data.corruptions.corruption import Fields, Shape, register_corruption
from xcnorm.data.streams import Stream


def _draw(stream: Stream, shape: Shape, constants: tuple[float, float]) -> Fields:
    side = 1 << (max(shape.height, shape.width) - 1).bit_length()
    return {"wibble": stream.uniform(side, side)}


@register_corruption(
    "fog",
    "weather",
    published=10,
    # How much fog, and how fast its randomness shrinks towards small scales.
    cifar=((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
    imagenet=((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
    draw=_draw,
)
def _apply(images: Tensor, fields: Fields, constants: tuple[float, float]) -> Tensor:
    amount, decay = constants
    height, width = images.shape[2:]
    clouds = _plasma(fields["wibble"], decay)[:, :height, :width].float().unsqueeze(1)
    brightest = images.amax((1, 2, 3), keepdim=True)
    return (images + amount * clouds) * brightest / (brightest + amount)


def _plasma(uniform: Tensor, decay: float) -> Tensor:
    """Landscapes between 0 and 1 by the diamond-square algorithm, on a torus.

    Each point is set once, to the mean of four points around it plus a random number that shrinks with the distance to
    them; the number comes from the point's own place in `uniform`.

    Args:
        uniform: ``(N, side, side)`` in [0, 1), `side` a power of two.
        decay: By how much the randomness shrinks when the distance halves.
    """
    ground = torch.zeros_like(uniform, dtype=torch.float64)
    signed = 2 * uniform.double() - 1
    step, wibble = uniform.shape[1], 100.0
    while step >= 2:
        half = step // 2
        size = wibble * wibble  # the published generator multiplies a number between -wibble and wibble by wibble
        corners = ground[:, ::step, ::step]
        squares = corners + corners.roll(-1, 1)
        squares = squares + squares.roll(-1, 2)
        ground[:, half::step, half::step] = squares / 4 + size * signed[:, half::step, half::step]
        # With the squares' centres known, the points between them and the corners follow: in the rows, in the columns.
        centres = ground[:, half::step, half::step]
        right = centres + centres.roll(1, 1) + corners + corners.roll(-1, 2)
        ground[:, ::step, half::step] = right / 4 + size * signed[:, ::step, half::step]
        below = centres + centres.roll(1, 2) + corners + corners.roll(-1, 1)
        ground[:, half::step, ::step] = below / 4 + size * signed[:, half::step, ::step]
        step, wibble = half, wibble / decay
    ground = ground - ground.amin((1, 2), keepdim=True)
    return ground / ground.amax((1, 2), keepdim=True)
