"""Brightness: the value V of hue, saturation and value is raised."""

from torch import Tensor

from xcnorm.data.corruptions.corruption import Fields, register_corruption


@register_corruption(
    "brightness",
    "weather",
    published=11,
    cifar=(0.05, 0.10, 0.15, 0.20, 0.30),
    imagenet=(0.10, 0.20, 0.30, 0.40, 0.50),
)
def _apply(images: Tensor, fields: Fields, more: float) -> Tensor:
    # V is the largest of the three, and with hue and saturation fixed the others keep their ratio to it: no need to
    # go to HSV and back. Black has no ratio; it turns grey.
    value = images.amax(1, keepdim=True)
    raised = (value + more).clamp(max=1)
    return (images * (raised / value)).where(value > 0, raised)
