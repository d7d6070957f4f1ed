"""Gaussian blur."""

from torch import Tensor

from xcnorm.data.corruptions._filters import gaussian
from xcnorm.data.corruptions.corruption import Fields, register_corruption


@register_corruption(
    "gaussian_blur",
    "blur",
    published=17,
    cifar=(0.4, 0.6, 0.7, 0.8, 1),
    imagenet=(1, 2, 3, 4, 6),
)
def _apply(images: Tensor, fields: Fields, sigma: float) -> Tensor:
    return gaussian(images, sigma, mode="nearest")
