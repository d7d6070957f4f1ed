"""Motion blur: the camera moves while the shutter is open."""

from torch import Tensor

from xcnorm.data.corruptions._filters import motion
from xcnorm.data.corruptions.corruption import Fields, Shape, register_corruption
from xcnorm.data.streams import Stream

_Constants = tuple[float, float]  # half the length of the path, deviation of its weights


def _draw(stream: Stream, shape: Shape, constants: _Constants) -> Fields:
    return {"angle": 90 * stream.uniform() - 45}


@register_corruption(
    "motion_blur",
    "blur",
    published=6,
    cifar=((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
    imagenet=((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
    draw=_draw,
)
def _apply(images: Tensor, fields: Fields, constants: _Constants) -> Tensor:
    radius, sigma = constants
    return motion(images, radius, sigma, fields["angle"])
