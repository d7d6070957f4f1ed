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
        height, width = (size, size) if size is None or isinstance(size, int) else size
        self.rows = None if height is None else nn.Buffer(torch.arange(float(height)).unsqueeze(1))
        self.columns = None if width is None else nn.Buffer(torch.arange(float(width)).unsqueeze(1))

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C, H, W)`` to the pooled maps."""
        output = input if self.rows is None else _means(input[0, 0, :, 0], self.rows) @ input
        return output if self.columns is None else output @ _means(input[0, 0, 0], self.columns).mT


def _means(line: Tensor, part: Tensor) -> Tensor:
    """The matrix ``(parts, size)`` that averages over each part of a line, as torch cuts it.

    A part reaches from the floor of its start to the ceiling of its end, which are multiples of ``size / parts``.
    """
    end = torch.ones_like(line).cumsum(0)  # of each position; a range of a size that is not known has no operator
    size, parts = end[-1:], len(part)
    inside = ((end * parts > part * size) & ((end - 1) * parts < (part + 1) * size)).to(line.dtype)
    return inside / inside.sum(1, keepdim=True)
