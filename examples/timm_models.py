"""timm's networks on XCNorm layers, under names of their own: `r_xcnorm_resnet18` is timm's `resnet18`, converted.

timm's train script imports the modules that ``--device-modules`` names before it makes the network:

    PYTHONPATH=examples python train.py PICTURES --device-modules timm_models --model r_xcnorm_resnet18

It needs a torchvision that can be imported, as timm itself does. Run alone, this file prints what became of a network:

    python examples/timm_models.py r_xcnorm_resnet18
"""

import argparse
from typing import Any

import timm
import torch
from timm.models import register_model
from torch import nn

import xcnorm

LAYERS = ("xcnorm", "r_xcnorm")
NETWORKS = ("resnet18", "resnet50", "densenet121", "convnext_atto", "mobilenetv3_small_100", "efficientnet_b0")


def register(layer: str, network: str) -> None:
    """Let timm know a network of its own, converted; trained weights, where asked for, are the initial filters."""

    def make(pretrained: bool = False, **options: Any) -> nn.Module:
        return xcnorm.convert(timm.create_model(network, pretrained=pretrained, **options), layer=layer)

    make.__name__ = f"{layer}_{network}"
    register_model(make)


for layer in LAYERS:
    for network in NETWORKS:
        register(layer, network)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    model = timm.create_model(parser.parse_args().name, num_classes=10).eval()
    print(xcnorm.conversion_report(model))
    with torch.no_grad():
        print("logits:", *model(torch.rand(2, 3, 64, 64)).shape)


if __name__ == "__main__":
    main()
