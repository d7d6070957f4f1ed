"""Pixelate: too few pixels, blown up.

Byte for byte what Pillow's box filter gave when the published files were made.
"""

from torch import Tensor

from xcnorm.data.corruptions.corruption import Corruption, Fields, draw_nothing
from xcnorm.data.resampling import BOX, resample, weights


def _apply(images: Tensor, fields: Fields, share: float) -> Tensor:
    height, width = images.shape[2:]
    few = _resize((images * 255).round().double(), int(height * share), int(width * share))
    return _resize(few, height, width).to(images.dtype) / 255


def _resize(images: Tensor, height: int, width: int) -> Tensor:
    across, down = weights(images.shape[3], width, BOX), weights(images.shape[2], height, BOX)
    return resample(images, across.to(images.device), down.to(images.device))


CORRUPTION = Corruption(
    cifar=(0.95, 0.9, 0.85, 0.75, 0.65),
    imagenet=(0.6, 0.5, 0.4, 0.3, 0.25),
    draw=draw_nothing,
    apply=_apply,
)
