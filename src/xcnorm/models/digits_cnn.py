"""The network of the Digits benchmark."""

from __future__ import annotations

from torch import nn

from xcnorm.models.create import register_model
from xcnorm.models.wiring import Network, Wiring


class DigitsCNN(Network):
    """Two 5x5 convolutions without padding, each with a max pool, and two hidden dense layers of 1024.

    The embedding is the output of the second dense layer. Made for 32 pixels; the pool before the dense layers is
    the identity there and brings other sizes to 5x5.

    XCNorm forms: each convolution and its ReLU become one layer; the max pool follows it. Hidden dense layers stay
    linear with a ReLU, or become dense XCNorm layers with ``dense="xcnorm"``.

    Args:
        wiring: The layers to use.
        num_classes: Number of classes.
        in_channels: Channels of the images.
    """

    def __init__(self, wiring: Wiring, num_classes: int = 10, in_channels: int = 3) -> None:
        bias = wiring.norm_kind == "none"  # a norm would cancel it
        trunk = nn.Sequential(
            wiring.unit(in_channels, 64, 5, bias=bias, first=True),
            wiring.max_pool(2),
            wiring.unit(64, 128, 5, bias=bias),
            wiring.max_pool(2),
            nn.AdaptiveAvgPool2d(5),
            nn.Flatten(),
            wiring.dense(128 * 5 * 5, 1024),
            wiring.dense(1024, 1024),
        )
        super().__init__(trunk, 1024, num_classes)


@register_model("digits_cnn", norm="none", hidden_dense=True)
def digits_cnn(wiring: Wiring, num_classes: int, in_channels: int) -> DigitsCNN:
    """The ConvNet of ADA, M-ADA, ME-ADA and RandConv; torch's default initialisation."""
    return DigitsCNN(wiring, num_classes, in_channels)
