"""Pixelate: too few pixels, blown up.

Byte for byte what Pillow's box filter gives. Pillow averages across, then down, with 8 bits in between; its newer
versions choose the other order for some oblong images, which the published generator's did not.
"""

import torch
from torch import Tensor

from xcnorm.data.corruptions.corruption import Corruption, Fields, draw_nothing

_ONE = 1 << 22  # Pillow's weights are whole numbers; this is 1


def _apply(images: Tensor, fields: Fields, share: float) -> Tensor:
    height, width = images.shape[2:]
    few = _resize((images * 255).round().double(), int(height * share), int(width * share))
    return _resize(few, height, width).to(images.dtype) / 255


def _resize(images: Tensor, height: int, width: int) -> Tensor:
    """Average 8-bit values across, then down. Sums of whole numbers below 2^53 are exact in double precision."""
    across = _round(images @ _weights(images.shape[3], width).to(images.device).T)
    return _round(_weights(images.shape[2], height).to(images.device) @ across)


def _round(sums: Tensor) -> Tensor:
    """From sums of weighted values to 8 bits."""
    return ((sums + _ONE // 2) / _ONE).floor().clamp(0, 255)


def _weights(before: int, after: int) -> Tensor:
    """The box filter's weights ``(after, before)`` in units of 1/`_ONE`, float64."""
    scale = before / after
    spread = max(scale, 1.0)
    centres = ((torch.arange(after, dtype=torch.float64) + 0.5) * scale).unsqueeze(1)
    pixels = torch.arange(before)
    # Pillow first finds the pixels whose centres may be in the box, then asks the filter about each of them.
    start, end = (centres - spread / 2 + 0.5).clamp(min=0).floor(), (centres + spread / 2 + 0.5).floor()
    distance = (pixels - centres + 0.5) * (1 / spread)
    inside = (pixels >= start) & (pixels < end) & (distance > -0.5) & (distance <= 0.5)
    return (inside / inside.sum(1, keepdim=True).double() * _ONE + 0.5).floor()


CORRUPTION = Corruption(
    cifar=(0.95, 0.9, 0.85, 0.75, 0.65),
    imagenet=(0.6, 0.5, 0.4, 0.3, 0.25),
    draw=draw_nothing,
    apply=_apply,
)
