"""A probe of a model with a batch: which of its layers see maps of a single position."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd


def see_single_position(model: nn.Module, batch: Tensor) -> dict[int, bool]:
    """Run a model on a batch, in evaluation mode and without gradients.

    Returns:
        For each 1x1 convolution that was called, by its id, whether all maps that it saw had a single position.
    """
    found: dict[int, bool] = {}

    def look(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        assert isinstance(module, _ConvNd)
        single = inputs[0].shape[-len(module.kernel_size) :].numel() == 1
        found[id(module)] = single and found.get(id(module), True)

    narrow = [m for m in model.modules() if isinstance(m, _ConvNd) and all(size == 1 for size in m.kernel_size)]
    handles = [module.register_forward_pre_hook(look) for module in narrow]
    training = {module: module.training for module in model.modules()}
    try:
        with torch.no_grad():
            model.eval()(batch)
    finally:
        for handle in handles:
            handle.remove()
        for module, flag in training.items():
            module.training = flag
    return found
