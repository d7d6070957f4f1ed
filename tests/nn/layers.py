"""What the layer tests iterate over."""

import torch

import xcnorm.nn as xnn

CONVOLUTIONS = {
    1: (torch.nn.Conv1d, xnn.XCNormConv1d, xnn.RXCNormConv1d),
    2: (torch.nn.Conv2d, xnn.XCNormConv2d, xnn.RXCNormConv2d),
    3: (torch.nn.Conv3d, xnn.XCNormConv3d, xnn.RXCNormConv3d),
}

BARE = {"rectify": "none", "tau": "none", "gain": "none", "mask": False, "norm": "none"}

# One of each kind: all classes, both presets, every way to set c, every optional stage.
LAYERS = {
    "conv1d": lambda **k: xnn.XCNormConv1d(4, 6, 3, padding=1, **k),
    "conv2d": lambda **k: xnn.XCNormConv2d(4, 6, 3, padding=1, **k),
    "conv2d-paper": lambda **k: xnn.XCNormConv2d(4, 6, 3, padding=1, preset="paper", **k),
    "conv2d-bare": lambda **k: xnn.XCNormConv2d(4, 6, 3, padding=1, **BARE, **k),
    "conv2d-everything": lambda **k: xnn.XCNormConv2d(
        4,
        6,
        3,
        2,
        1,
        1,
        2,
        padding_mode="replicate",
        channelwise=True,
        rectify="abs",
        tau=1.5,
        gain="after_norm",
        mask=True,
        norm="layer",
        **k,
    ),
    "conv3d": lambda **k: xnn.XCNormConv3d(4, 6, 3, padding=1, mask=True, **k),
    "linear": lambda **k: xnn.XCNormLinear(12, 6, mask=True, **k),
    "robust-conv1d": lambda **k: xnn.RXCNormConv1d(4, 6, 3, padding=1, **k),
    "robust-conv2d": lambda **k: xnn.RXCNormConv2d(4, 6, 3, padding=1, **k),
    "robust-conv2d-paper": lambda **k: xnn.RXCNormConv2d(4, 6, 3, padding=1, preset="paper", **k),
    "robust-conv2d-parameter": lambda **k: xnn.RXCNormConv2d(
        4, 6, 3, padding=1, robust="huber", scale="parameter", c_init=2.0, norm="group", **k
    ),
    "robust-conv2d-channelwise": lambda **k: xnn.RXCNormConv2d(4, 6, 3, channelwise=True, groups=2, **k),
    "robust-conv3d": lambda **k: xnn.RXCNormConv3d(4, 6, 3, padding=1, **k),
    "robust-linear": lambda **k: xnn.RXCNormLinear(12, 6, **k),
    "robust-linear-paper": lambda **k: xnn.RXCNormLinear(12, 6, preset="paper", **k),
}


def input_for(layer, images=5, **options):
    """A random batch of the right rank and width."""
    if isinstance(layer, torch.nn.Linear):
        return torch.randn(images, layer.in_features, **options)
    sizes = (7, 6, 5)[: len(layer.kernel_size)]
    return torch.randn(images, layer.in_channels, *sizes, **options)
