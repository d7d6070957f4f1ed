"""Densely connected networks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from xcnorm.models.create import register_model
from xcnorm.models.wiring import Network, Wiring, global_pool, initialise

_BOTTLENECK = 4


class _DenseLayer(nn.Module):
    """A 1x1 and a 3x3 convolution whose maps are appended to their input."""

    def __init__(self, wiring: Wiring, channels: int, growth: int) -> None:
        super().__init__()
        inner = _BOTTLENECK * growth
        self.branch = nn.Sequential(
            wiring.preactivation(channels),
            wiring.convolution(channels, inner, 1),
            wiring.preactivation(inner),
            wiring.convolution(inner, growth, 3, padding=1),
        )

    def forward(self, input: Tensor) -> Tensor:
        return torch.cat([input, self.branch(input)], 1)


class DenseNet(Network):
    """DenseNet with the stem for large images; every layer of a block sees the maps of all layers before it.

    The embedding is the pooled output of the last block.

    XCNorm forms: the stem, both convolutions of every dense layer and the 1x1 convolutions of transitions become
    layers; the norms and ReLUs before them go. The final norm and ReLU stay before the global pool, and a ReLU is added
    before the average pool of each transition: the mean of a map normalised per image is zero, and on images of 32
    pixels the last transition averages a whole map.

    Args:
        growth: Maps that a dense layer adds.
        blocks: Dense layers in each block.
        wiring: The layers to use.
        num_classes: Number of classes.
        in_channels: Channels of the images.
    """

    def __init__(
        self,
        growth: int,
        blocks: tuple[int, ...],
        wiring: Wiring,
        num_classes: int = 10,
        in_channels: int = 3,
    ) -> None:
        channels = 2 * growth
        parts = [
            wiring.unit(in_channels, channels, 7, stride=2, padding=3, first=True),
            wiring.max_pool(3, 2, 1),
        ]
        for block, count in enumerate(blocks):
            if block > 0:  # a transition: half the maps, half the size
                parts += [
                    wiring.preactivation(channels),
                    wiring.convolution(channels, channels // 2, 1),
                    wiring.before_pool(own=False),
                    nn.AvgPool2d(2),
                ]
                channels //= 2
            for _ in range(count):
                parts.append(_DenseLayer(wiring, channels, growth))
                channels += growth
        parts += [wiring.norm(channels), wiring.before_pool(own=True), global_pool()]
        super().__init__(nn.Sequential(*parts), channels, num_classes)
        initialise(self, "fan_in")


@register_model("densenet121")
def densenet121(wiring: Wiring, num_classes: int, in_channels: int) -> DenseNet:
    """DenseNet-121, the network of Camelyon17-WILDS."""
    return DenseNet(32, (6, 12, 24, 16), wiring, num_classes, in_channels)
