"""Speckle noise: the brighter a value, the noisier."""

from torch import Tensor

from xcnorm.data.corruptions.corruption import Fields, Shape, register_corruption
from xcnorm.data.streams import Stream


def _draw(stream: Stream, shape: Shape, deviation: float) -> Fields:
    return {"noise": stream.normal(*shape)}


@register_corruption(
    "speckle_noise",
    "noise",
    published=16,
    cifar=(0.06, 0.10, 0.12, 0.16, 0.20),
    imagenet=(0.15, 0.20, 0.35, 0.45, 0.60),
    draw=_draw,
)
def _apply(images: Tensor, fields: Fields, deviation: float) -> Tensor:
    return images + images * (deviation * fields["noise"])
