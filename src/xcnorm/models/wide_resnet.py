"""Wide residual networks for small images."""

from __future__ import annotations

from torch import Tensor, nn

from xcnorm.models.create import register_model
from xcnorm.models.wiring import Network, Wiring, global_pool, initialise


class _Block(nn.Module):
    """Two 3x3 convolutions around a shortcut, each preceded by norm and ReLU where the form keeps them."""

    def __init__(
        self, wiring: Wiring, channels_in: int, channels_out: int, stride: int, *, first: bool = False
    ) -> None:
        super().__init__()
        self.before = wiring.preactivation(channels_in, first=first)
        self.residual = nn.Sequential(
            wiring.convolution(channels_in, channels_out, 3, stride=stride, padding=1),
            wiring.preactivation(channels_out),
            wiring.convolution(channels_out, channels_out, 3, padding=1),
        )
        self.projection = None
        if channels_in != channels_out:
            self.projection = nn.Conv2d(channels_in, channels_out, 1, stride, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        activated = self.before(input)
        shortcut = input if self.projection is None else self.projection(activated)
        output: Tensor = self.residual(activated) + shortcut
        return output


class WideResNet(Network):
    """Pre-activation residual network of three groups of blocks with 16, 32 and 64 times ``width`` channels.

    The embedding is the pooled output of the last group.

    XCNorm forms: the stem and all 3x3 convolutions become layers; norms and ReLUs inside the blocks go. The identity
    path is untouched and projections stay plain 1x1 convolutions, so the shortcut is linear throughout. The final
    norm and ReLU stay before the pool: without the ReLU, the mean of a map normalised per image would be zero.

    Args:
        depth: Number of layers, 6 n + 4 for n blocks per group.
        width: Widening factor.
        wiring: The layers to use.
        num_classes: Number of classes.
        in_channels: Channels of the images.
    """

    def __init__(self, depth: int, width: int, wiring: Wiring, num_classes: int = 10, in_channels: int = 3) -> None:
        if depth < 10 or depth % 6 != 4:
            raise ValueError(f"depth must be 6 n + 4 for n blocks per group, got {depth}; 16, 28 and 40 are usual")
        blocks: list[nn.Module] = []
        channels = 16
        for group in range(3):
            for index in range((depth - 4) // 6):
                stride = 2 if group > 0 and index == 0 else 1
                wide = 16 * width * 2**group
                blocks.append(_Block(wiring, channels, wide, stride, first=not blocks))
                channels = wide
        trunk = nn.Sequential(
            wiring.convolution(in_channels, 16, 3, padding=1, first=True),
            *blocks,
            wiring.norm(channels),
            wiring.before_pool(own=True),
            global_pool(),
        )
        super().__init__(trunk, channels, num_classes)
        initialise(self, "fan_out")


@register_model("wrn16_4")
def wrn16_4(wiring: Wiring, num_classes: int, in_channels: int) -> WideResNet:
    """WRN-16-4, the network of the CIFAR-10-C tables."""
    return WideResNet(16, 4, wiring, num_classes, in_channels)


@register_model("wrn40_2")
def wrn40_2(wiring: Wiring, num_classes: int, in_channels: int) -> WideResNet:
    """WRN-40-2, the network of AugMix and ME-ADA."""
    return WideResNet(40, 2, wiring, num_classes, in_channels)
