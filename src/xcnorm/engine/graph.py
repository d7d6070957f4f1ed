"""A training step as a CUDA graph: recorded once, then replayed without the CPU's help."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_WARM_UP = 3  # steps run as they are; what a library sets up at first use must not be recorded


def captured(update: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """A function that does what `update` does to images and labels of one shape, from a recording.

    Args:
        update: Does a training step and returns its loss. It must do the same work on the same memory every time.
    """
    graph = torch.cuda.CUDAGraph()
    memory: dict[str, Tensor] = {}
    steps = 0

    def replay(images: Tensor, labels: Tensor) -> Tensor:
        nonlocal steps
        steps += 1
        if steps <= _WARM_UP:
            return _beside(update, images, labels)
        if not memory:
            memory["images"], memory["labels"] = images.clone(), labels.clone()
            with torch.cuda.graph(graph):
                memory["loss"] = update(memory["images"], memory["labels"])
        memory["images"].copy_(images)
        memory["labels"].copy_(labels)
        graph.replay()
        return memory["loss"].clone()

    return replay


def _beside(update: Callable[[Tensor, Tensor], Tensor], images: Tensor, labels: Tensor) -> Tensor:
    """On a stream of its own, as the steps before a recording must run."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        loss = update(images, labels)
    torch.cuda.current_stream().wait_stream(stream)
    return loss
