"""The averaged network: weights that follow those in training by a moving average, and are tested in their place."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor

from xcnorm.models import Network


class AveragedNetwork:
    """A copy of a network whose weights are a moving average of its weights.

    Statistics of batches that are moving averages already, which torch names ``running_...``, are averaged like the
    weights: to first order in how far those moved, they are then the statistics of the averaged network. All other
    buffers, such as counters and a dictionary's words, which replace one another, are those of the newest step.

    Args:
        network: What it follows, on its device and with its first weights.
        decay: How much of the average stays in a step; in the first steps ``(1 + step) / (10 + step)`` where that is
            less, so that the first weights are soon forgotten.

    Attributes:
        network: The copy, in evaluation mode.
    """

    def __init__(self, network: Network, decay: float) -> None:
        self.network = deepcopy(network).requires_grad_(False).eval()
        self._decay = decay
        self._share = torch.zeros((), device=next(network.parameters()).device)
        self._averages: list[Tensor] = []
        self._followed: list[Tensor] = []
        self._copies: list[tuple[Tensor, Tensor]] = []
        for average, weight in zip(self.network.parameters(), network.parameters(), strict=True):
            self._averages.append(average)
            self._followed.append(weight.detach())
        for (name, own), other in zip(self.network.named_buffers(), network.buffers(), strict=True):
            if name.rpartition(".")[2].startswith("running_"):
                self._averages.append(own)
                self._followed.append(other)
            else:
                self._copies.append((own, other))

    def prepare(self, step: int) -> None:
        """Say which step comes next; the share of its weights is read from the device, also by captured steps.

        Args:
            step: The number of steps done before.
        """
        self._share.fill_(1 - min(self._decay, (1 + step) / (10 + step)))

    @torch.no_grad()
    def follow(self) -> None:
        """Move on by the weights of a step."""
        moves = torch._foreach_sub(self._followed, self._averages)
        torch._foreach_mul_(moves, self._share)
        torch._foreach_add_(self._averages, moves)
        for own, other in self._copies:
            own.copy_(other)
