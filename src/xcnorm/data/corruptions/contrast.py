"""Contrast: each channel shrinks towards its mean."""

from torch import Tensor

from xcnorm.data.corruptions.corruption import Fields, register_corruption


@register_corruption(
    "contrast",
    "digital",
    published=12,
    cifar=(0.75, 0.50, 0.40, 0.30, 0.15),
    imagenet=(0.40, 0.30, 0.20, 0.10, 0.05),
)
def _apply(images: Tensor, fields: Fields, kept: float) -> Tensor:
    # A sum of whole numbers comes out the same in whatever order it is taken.
    total = (images * 255).round().double().sum((2, 3), keepdim=True)
    mean = (total / (255 * images.shape[2:].numel())).float()
    return (images - mean) * kept + mean
