"""Gaussian noise: what a sensor adds in low light."""

from torch import Tensor

from xcnorm.data.corruptions.corruption import Fields, Shape, register_corruption
from xcnorm.data.streams import Stream


def _draw(stream: Stream, shape: Shape, deviation: float) -> Fields:
    return {"noise": stream.normal(*shape)}


@register_corruption(
    "gaussian_noise",
    "noise",
    published=1,
    cifar=(0.04, 0.06, 0.08, 0.09, 0.10),
    imagenet=(0.08, 0.12, 0.18, 0.26, 0.38),
    draw=_draw,
)
def _apply(images: Tensor, fields: Fields, deviation: float) -> Tensor:
    return images + deviation * fields["noise"]
