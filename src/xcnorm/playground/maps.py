"""Response maps: what a network's first layer answers to a picture, and how far that has moved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

_SHOWN = 16
_ROWS = 4


class FirstMaps:
    """Holds the response maps of the first convolution that runs, with the norm and the activation that follow it.

    A form of the layers may have these two within itself; only so do maps of different networks compare.

    Attributes:
        maps: ``(C, H, W)``, float32; None before a network has run, and for one without a convolution.
    """

    def __init__(self) -> None:
        self.maps: Tensor | None = None
        self._complete = False

    @contextmanager
    def watching(self, network: nn.Module) -> Iterator[None]:
        """Hold the maps of what runs within the block."""
        handles = [module.register_forward_hook(self._hook) for module in _parts(network)]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _hook(self, module: nn.Module, inputs: Any, output: Any) -> None:
        if self._complete:
            return
        maps = output[0].detach().float().cpu().clone() if isinstance(output, Tensor) and output.ndim == 4 else None
        if self.maps is None:
            self.maps = maps if isinstance(module, nn.Conv2d) else None
        elif maps is not None and maps.shape == self.maps.shape and not isinstance(module, nn.Conv2d):
            self.maps = maps
        else:
            self._complete = True


def _parts(network: nn.Module) -> Iterator[nn.Module]:
    """Its convolutions, whatever these consist of, and all other modules that have no parts."""
    children = list(network.children())
    if isinstance(network, nn.Conv2d) or not children:
        yield network
        return
    for child in children:
        yield from _parts(child)


def moved(before: Tensor, now: Tensor) -> float:
    """How far maps have moved: the length of the difference, as a share of the length that they had."""
    return float((now - before).norm() / before.norm().clamp_min(1e-12))


def drawn(before: Tensor, now: Tensor) -> Tensor:
    """Up to sixteen maps as one grey picture.

    They are those that vary most over the picture as it was, and their shades are those of then: black for the least
    response of each, white for the largest. So what grows pale here has become weak in the network.

    Args:
        before: The maps of the picture as it was, ``(C, H, W)``.
        now: The maps of the picture as it is.

    Returns:
        ``(height, width)``, uint8.
    """
    chosen = before.flatten(1).std(1).topk(min(_SHOWN, len(before))).indices.sort().values
    low, high = (f(before[chosen].flatten(1), dim=1).view(-1, 1, 1) for f in (torch.amin, torch.amax))
    shades = ((now[chosen] - low) / (high - low).clamp_min(1e-12)).clamp(0, 1)
    tiles = nn.functional.pad((shades * 255).round().to(torch.uint8), (0, 1, 0, 1), value=128)
    columns = -(-len(tiles) // _ROWS)
    empty = tiles.new_full((_ROWS * columns - len(tiles), *tiles.shape[1:]), 128)
    grid = torch.cat([tiles, empty]).unflatten(0, (-1, columns))
    return grid.permute(0, 2, 1, 3).flatten(0, 1).flatten(1)[:-1, :-1]
