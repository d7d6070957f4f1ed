"""Adam for what learns inside a training step: its state is all on the device, so that a GPU can replay its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

_FIRST, _SECOND, _TINY = 0.9, 0.999, 1e-8


class InnerAdam:
    """Adam (Kingma and Ba, ICLR 2015) with torch's defaults and bit for bit the same state on every device.

    Args:
        parameters: What learns; moved in place.
        rate: The learning rate.
    """

    def __init__(self, parameters: Sequence[Tensor], rate: float) -> None:
        self._parameters = [parameter.detach() for parameter in parameters]
        self._rate = rate
        self._means = [torch.zeros_like(parameter) for parameter in self._parameters]
        self._squares = [torch.zeros_like(parameter) for parameter in self._parameters]
        # What is left of the zeros that both began with; double precision, as torch counts steps exactly.
        self._left = torch.ones(2, dtype=torch.float64, device=self._parameters[0].device)
        self._decay = torch.tensor([_FIRST, _SECOND], dtype=torch.float64, device=self._parameters[0].device)

    @torch.no_grad()
    def reset(self) -> None:
        """Forget everything."""
        torch._foreach_zero_([*self._means, *self._squares])
        self._left.fill_(1)

    @torch.no_grad()
    def step(self, slopes: Sequence[Tensor]) -> None:
        """Move down.

        Args:
            slopes: The gradient of each parameter.
        """
        given = list(slopes)
        self._left.mul_(self._decay)
        first, second = (1 - self._left).to(self._parameters[0].dtype).unbind()
        torch._foreach_lerp_(self._means, given, 1 - _FIRST)
        torch._foreach_mul_(self._squares, _SECOND)
        torch._foreach_addcmul_(self._squares, given, given, 1 - _SECOND)
        moves = torch._foreach_div(self._means, first)
        divisors = torch._foreach_div(self._squares, second)
        torch._foreach_sqrt_(divisors)
        torch._foreach_add_(divisors, _TINY)
        torch._foreach_div_(moves, divisors)
        torch._foreach_add_(self._parameters, moves, alpha=-self._rate)

    def state_dict(self) -> dict[str, Any]:
        """What it remembers."""
        return {"means": self._means, "squares": self._squares, "left": self._left}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, in the same memory."""
        with torch.no_grad():
            for own, saved in zip(self._means, state["means"], strict=True):
                own.copy_(saved)
            for own, saved in zip(self._squares, state["squares"], strict=True):
                own.copy_(saved)
            self._left.copy_(state["left"])
