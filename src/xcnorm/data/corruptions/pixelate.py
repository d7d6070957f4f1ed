"""Pixelate: too few pixels, blown up.

Byte for byte what Pillow's box filter gave when the published files were made.
"""

from torch import Tensor

from xcnorm.data.corruptions.corruption import Fields, register_corruption
from xcnorm.data.resampling import BOX, resize


@register_corruption(
    "pixelate",
    "digital",
    published=14,
    cifar=(0.95, 0.9, 0.85, 0.75, 0.65),
    imagenet=(0.6, 0.5, 0.4, 0.3, 0.25),
)
def _apply(images: Tensor, fields: Fields, share: float) -> Tensor:
    height, width = images.shape[2:]
    few = resize((images * 255).round().double(), int(height * share), int(width * share), BOX)
    return resize(few, height, width, BOX).to(images.dtype) / 255
