"""Residual networks for large images."""

from __future__ import annotations

from torch import Tensor, nn

from xcnorm.models.create import register_model
from xcnorm.models.wiring import Network, Wiring, global_pool, initialise


class _Block(nn.Module):
    """Convolutions around a shortcut: two of 3x3, or a bottleneck of 1x1, 3x3 and 1x1 that widens four times."""

    def __init__(self, wiring: Wiring, channels_in: int, width: int, stride: int, *, bottleneck: bool) -> None:
        super().__init__()
        channels_out = 4 * width if bottleneck else width
        if bottleneck:
            self.residual = nn.Sequential(
                wiring.unit(channels_in, width, 1),
                wiring.unit(width, width, 3, stride=stride, padding=1),
                wiring.unit(width, channels_out, 1, activation=None),
            )
        else:
            self.residual = nn.Sequential(
                wiring.unit(channels_in, width, 3, stride=stride, padding=1),
                wiring.unit(width, width, 3, padding=1, activation=None),
            )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), wiring.norm(channels_out)
            )
        self.activation = nn.Identity() if wiring.whole else wiring.activation()

    def forward(self, input: Tensor) -> Tensor:
        output: Tensor = self.activation(self.residual(input) + self.shortcut(input))
        return output


class ResNet(Network):
    """ResNet with the stem for large images: a 7x7 convolution of stride 2 and a max pool.

    The embedding is the pooled output of the last stage.

    XCNorm forms: the stem and all convolutions of the blocks become layers, the 1x1 ones of bottlenecks included;
    the ReLU after each sum goes. Shortcuts with a change of shape stay a plain 1x1 convolution and its norm. A norm
    and a ReLU are added before the pool: sums are not rectified any more, and the mean of a map normalised per image
    is zero.

    Args:
        blocks: Blocks in each of the four stages.
        bottleneck: Whether blocks are bottlenecks.
        wiring: The layers to use.
        num_classes: Number of classes.
        in_channels: Channels of the images.
    """

    def __init__(
        self,
        blocks: tuple[int, int, int, int],
        bottleneck: bool,
        wiring: Wiring,
        num_classes: int = 10,
        in_channels: int = 3,
    ) -> None:
        parts = [
            wiring.unit(in_channels, 64, 7, stride=2, padding=3, first=True),
            wiring.max_pool(3, 2, 1),
        ]
        channels = 64
        for stage, count in enumerate(blocks):
            width = 64 * 2**stage
            for index in range(count):
                stride = 2 if stage > 0 and index == 0 else 1
                parts.append(_Block(wiring, channels, width, stride, bottleneck=bottleneck))
                channels = 4 * width if bottleneck else width
        if wiring.whole:
            parts.append(wiring.norm(channels))
        super().__init__(nn.Sequential(*parts, wiring.before_pool(own=False), global_pool()), channels, num_classes)
        initialise(self, "fan_out", zero_bias=False)


@register_model("resnet18")
def resnet18(wiring: Wiring, num_classes: int, in_channels: int) -> ResNet:
    """ResNet-18."""
    return ResNet((2, 2, 2, 2), False, wiring, num_classes, in_channels)


@register_model("resnet50")
def resnet50(wiring: Wiring, num_classes: int, in_channels: int) -> ResNet:
    """ResNet-50, with the stride in the 3x3 convolution of a bottleneck."""
    return ResNet((3, 4, 6, 3), True, wiring, num_classes, in_channels)
