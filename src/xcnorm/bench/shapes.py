"""Shapes of the layers that are measured: those of our networks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from xcnorm.models import create_model
from xcnorm.nn import XCNormConv2d

NETWORKS = {
    "wrn16_4": (128, 32),
    "digits_cnn": (128, 32),
    "wrn40_2": (128, 32),
    "resnet18": (64, 224),
    "resnet50": (64, 224),
    "densenet121": (64, 96),
}
"""What is measured unless somebody names others: images of a batch on a GPU, and their height and width."""
QUICK = ("wrn16_4", "digits_cnn")

_OTHERS = (128, 32)
_CPU_SHARE = 4  # a CPU thread gets a batch so many times smaller
_MANY = 6  # layers that differ in their channels alone; of more, the first, the middle and the last are measured


@dataclass(frozen=True)
class LayerShape:
    """One layer and its batch."""

    images: int
    channels_in: int
    channels_out: int
    pixels: int
    kernel: int
    stride: int = 1
    padding: int = 0
    network: str = field(default="", compare=False)
    """The first of our networks that has it."""

    @property
    def name(self) -> str:
        """Such as ``64 to 128, 3x3/2, 32 px, batch 128``."""
        stride = f"/{self.stride}" if self.stride > 1 else ""
        return (
            f"{self.channels_in} to {self.channels_out}, {self.kernel}x{self.kernel}{stride}, {self.pixels} px, "
            f"batch {self.images}"
        )

    @property
    def first(self) -> bool:
        """Whether it sees images, whose gradient nobody wants."""
        return self.channels_in == 3

    @property
    def input_size(self) -> tuple[int, int, int, int]:
        """Of its input, ``(N, C, H, W)``."""
        return self.images, self.channels_in, self.pixels, self.pixels


def shapes_of(networks: Sequence[str], device: str) -> list[LayerShape]:
    """The distinct layers of some networks, in their order."""
    found = dict.fromkeys(shape for network in networks for shape in _layers(network, device))
    return list(found)


def batch_of(network: str, device: str) -> tuple[int, int]:
    """Images of a batch, and their height and width."""
    images, pixels = NETWORKS.get(network, _OTHERS)
    return images // (1 if device == "cuda" else _CPU_SHARE), pixels


def _layers(network: str, device: str) -> list[LayerShape]:
    images, pixels = batch_of(network, device)
    alike: defaultdict[tuple[int, int], dict[LayerShape, None]] = defaultdict(dict)

    def note(layer: XCNormConv2d, inputs: tuple[Tensor]) -> None:
        size, kernel, stride, padding = inputs[0].shape[-1], layer.kernel_size[0], layer.stride[0], layer.padding[0]
        assert isinstance(padding, int)
        shape = LayerShape(images, layer.in_channels, layer.out_channels, size, kernel, stride, padding, network)
        alike[size, kernel][shape] = None

    with torch.device("meta"):  # nothing is computed
        model = create_model(network, "xcnorm")
        for module in model.modules():
            if isinstance(module, XCNormConv2d):
                module.register_forward_pre_hook(note)
        model(torch.empty(1, 3, pixels, pixels))
    return [shape for group in alike.values() for shape in _representatives(list(group))]


def _representatives(alike: list[LayerShape]) -> list[LayerShape]:
    return alike if len(alike) <= _MANY else [alike[0], alike[len(alike) // 2], alike[-1]]
