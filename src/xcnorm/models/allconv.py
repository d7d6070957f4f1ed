"""The all-convolutional network of AugMix and ME-ADA."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from xcnorm.models.create import register_model
from xcnorm.models.wiring import Network, Wiring, global_pool, initialise


class SigmoidGELU(nn.Module):
    """GELU approximated by ``x * sigmoid(1.702 x)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return input * torch.sigmoid(1.702 * input)


class AllConv(Network):
    """Nine convolutions with batch norm and GELU, two max pools with dropout, an average pool.

    Oddities of the public code are kept: convolutions have a bias in front of their norm, the two 1x1 convolutions
    pad by one (at 32 pixels maps go from 6 to 8 to 10), and the 8x8 average pool then sees only the upper left of
    them. On larger images what the pool leaves is averaged.

    XCNorm forms: each convolution with its norm and GELU becomes one layer. A ReLU stands before the average pool:
    the mean of a map that was just normalised per image is zero, whatever the image.

    Args:
        wiring: The layers to use.
        num_classes: Number of classes.
        in_channels: Channels of the images.
    """

    def __init__(self, wiring: Wiring, num_classes: int = 10, in_channels: int = 3) -> None:
        def unit(channels_in: int, channels_out: int, kernel: int, padding: int, first: bool = False) -> nn.Module:
            return wiring.unit(
                channels_in,
                channels_out,
                kernel,
                padding=padding,
                bias=True,
                activation=SigmoidGELU,
                first=first,
            )

        trunk = nn.Sequential(
            unit(in_channels, 96, 3, 1, first=True),
            unit(96, 96, 3, 1),
            unit(96, 96, 3, 1),
            wiring.max_pool(2),
            nn.Dropout(0.5),
            unit(96, 192, 3, 1),
            unit(192, 192, 3, 1),
            unit(192, 192, 3, 1),
            wiring.max_pool(2),
            nn.Dropout(0.5),
            unit(192, 192, 3, 0),
            unit(192, 192, 1, 1),
            unit(192, 192, 1, 1),
            wiring.before_pool(own=False),
            nn.AvgPool2d(8),
            global_pool(),
        )
        super().__init__(trunk, 192, num_classes)
        initialise(self, "fan_out")


@register_model("allconv")
def allconv(wiring: Wiring, num_classes: int, in_channels: int) -> AllConv:
    """The AllConvNet of AugMix and ME-ADA."""
    return AllConv(wiring, num_classes, in_channels)
