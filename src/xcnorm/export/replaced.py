"""Networks whose layers were replaced by what an ONNX file can have."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from xcnorm.conversion.tree import list_slots
from xcnorm.export.nodes import LayerNode
from xcnorm.export.operators import SHAPES
from xcnorm.fusion.fixed import FixedStages
from xcnorm.nn import XCNormLayer


def as_nodes(network: nn.Module) -> nn.Module:
    """A fused network whose layers are nodes, where `xcnorm.export.operators` can write them.

    An average pool to several positions, which ONNX has for fixed sizes only, becomes two products with matrices.
    """
    network = copy.deepcopy(network)
    made: dict[int, nn.Module] = {}
    for slot in list(list_slots(network)):
        module = slot.module
        if isinstance(module, XCNormLayer) and can_be_node(module):
            made[id(module)] = made.get(id(module)) or LayerNode(module)
        elif type(module) is nn.AdaptiveAvgPool2d and module.output_size != 1:
            made[id(module)] = AveragePool(module.output_size)
        if id(module) in made and slot.parent is None:
            network = made[id(module)]
        elif id(module) in made:
            setattr(slot.parent, slot.attribute, made[id(module)])
    return network.eval()


def can_be_node(module: XCNormLayer) -> bool:
    """Whether a layer is fused, in float32, and of a robust function that is known in ONNX's operators."""
    known = module.options.robust is None or module.options.robust in SHAPES
    return known and isinstance(module.stages, FixedStages) and module.weight.dtype == torch.float32


class AveragePool(nn.Module):
    """An adaptive average pool by matrices that are made for the size of the input.

    Args:
        size: Height and width of the output; None keeps the input's.
    """

    def __init__(self, size: int | Sequence[int | None] | None) -> None:
        super().__init__()
        self.size = (size, size) if size is None or isinstance(size, int) else tuple(size)

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C, H, W)`` to the pooled maps."""
        height, width = self.size
        output = input if height is None else _means(input.shape[2], height, input) @ input
        return output if width is None else output @ _means(input.shape[3], width, input).mT


def _means(size: int, parts: int, like: Tensor) -> Tensor:
    """The matrix ``(parts, size)`` that averages over each part of an axis, as torch cuts it."""
    part, place = torch.arange(parts, device=like.device).unsqueeze(1), torch.arange(size, device=like.device)
    inside = (((place + 1) * parts > part * size) & (place * parts < (part + 1) * size)).to(like.dtype)
    return inside / inside.sum(1, keepdim=True)
