"""Impulse noise: salt and pepper, values that are lost to white or black."""

from torch import Tensor

from xcnorm.data.corruptions.corruption import Fields, Shape, register_corruption
from xcnorm.data.streams import Stream


def _draw(stream: Stream, shape: Shape, share: float) -> Fields:
    return {"luck": stream.uniform(*shape)}


@register_corruption(
    "impulse_noise",
    "noise",
    published=3,
    # The share of values that are lost, half of them to white and half to black.
    cifar=(0.01, 0.02, 0.03, 0.05, 0.07),
    imagenet=(0.03, 0.06, 0.09, 0.17, 0.27),
    draw=_draw,
)
def _apply(images: Tensor, fields: Fields, share: float) -> Tensor:
    luck = fields["luck"]
    return images.masked_fill(luck < share, 0).masked_fill(luck < share / 2, 1)
