"""Glass blur: pixels swap places with their neighbours, as seen through frosted glass.

The published generator means to swap, but writes through two views of one array, and so copies: each pixel is replaced
by a neighbour, and the neighbour stays. It goes through the image backwards, and pixels that come later see what was
written before.
"""

import torch
from torch import Tensor

from xcnorm.data.corruptions._filters import gaussian
from xcnorm.data.corruptions.corruption import Fields, Shape, register_corruption
from xcnorm.data.streams import Stream

_Constants = tuple[
    float, int, int
]  # deviation of the blur, how far away a neighbour may be, how often all are replaced


def _draw(stream: Stream, shape: Shape, constants: _Constants) -> Fields:
    _, reach, rounds = constants
    inner = (max(0, size - 2 * reach) for size in (shape.height, shape.width))
    return {"steps": stream.integers(-reach, reach, rounds, 2, *inner)}  # to the right, and down


@register_corruption(
    "glass_blur",
    "blur",
    published=5,
    cifar=((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    imagenet=((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    draw=_draw,
)
def _apply(images: Tensor, fields: Fields, constants: _Constants) -> Tensor:
    sigma, reach, _ = constants
    height, width = images.shape[2:]
    # In double precision throughout: neighbours weigh so little that single precision would lose what they take away.
    levels = _blur((images * 255).round().double(), sigma)
    for steps in fields["steps"].unbind(1):
        sources = _sources(steps, height, width, reach).unsqueeze(1)
        levels = levels.flatten(2).gather(2, sources.expand(-1, 3, -1)).view(levels.shape)
    return (_blur(levels, sigma) / 255).to(images.dtype)


def _blur(levels: Tensor, sigma: float) -> Tensor:
    """From grey levels to grey levels, cut off; one that is whole but for rounding errors is kept."""
    return (gaussian(levels, sigma, mode="nearest") + 1e-6).floor()


def _sources(steps: Tensor, height: int, width: int, reach: int) -> Tensor:
    """Which pixel each pixel ends up with, ``(N, H * W)``, once all were replaced one after the other."""
    inner = (..., slice(reach + 1, height - reach + 1), slice(reach + 1, width - reach + 1))
    own = torch.arange(height * width, device=steps.device).view(height, width)
    replaced = torch.zeros_like(own, dtype=torch.bool)
    replaced[inner] = True
    neighbour = own.repeat(len(steps), 1, 1)
    neighbour[inner] += steps[:, 0] + width * steps[:, 1]
    own, replaced, neighbour = own.flatten(), replaced.flatten(), neighbour.flatten(1)
    # A neighbour further on was replaced before, so what it holds is its own neighbour's. Such chains are followed to
    # the end, in leaps that double in length.
    leap = torch.where(replaced[neighbour] & (neighbour > own), neighbour, own)
    while not torch.equal(leap, further := leap.gather(1, leap)):
        leap = further
    return neighbour.gather(1, leap)
