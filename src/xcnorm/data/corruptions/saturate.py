"""Saturate: colours grow stronger, or pale; the saturation S of hue, saturation and value is changed."""

from torch import Tensor

from xcnorm.data.corruptions.corruption import Fields, register_corruption


@register_corruption(
    "saturate",
    "digital",
    published=19,
    # Saturation is multiplied by the first and then raised by the second.
    cifar=((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
    imagenet=((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),
)
def _apply(images: Tensor, fields: Fields, constants: tuple[float, float]) -> Tensor:
    factor, more = constants
    # S is how far the smallest of the three lies below the largest, V, as a share of V. With hue and V fixed, all
    # three keep the ratio of their distances to V: no need to go to HSV and back.
    value = images.amax(1, keepdim=True)
    depth = value - images
    deepest = depth.amax(1, keepdim=True)
    changed = (deepest / value * factor + more).clamp(0, 1) * value
    coloured = value - depth * (changed / deepest)
    # Grey has hue 0, which is red: when it is given some saturation it reddens. The published images do so too.
    red = images.new_tensor([0, 1, 1]).view(1, 3, 1, 1)
    grey = value - red * more * value
    return coloured.where(deepest > 0, grey)
