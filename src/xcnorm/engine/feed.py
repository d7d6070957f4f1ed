"""The feed: what training steps take, drawn for several of them at once where they are foreseeable."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from xcnorm.engine.batches import Batches
from xcnorm.methods import Objective

_STEPS = 32  # drawn at once, at most
_VALUES = 1 << 23  # of their images: 32 MB, of which PRIME, with six copies and its curves, makes 1.4 GB on the way


class Feed:
    """What training steps take, one after the other.

    A GPU does what is to be drawn for a small batch faster than a processor can ask for it; so several steps are drawn
    with one request for each operation. Every step draws its own random numbers, in the order of steps: how many are
    drawn at once does not change them.

    Args:
        batches: The images.
        objective: What is drawn for them.
        generators: Where that comes from: ``"method"``; and ``"augment"``, from which `batches` draw.
        shape: Of the images that a step of this process takes, ``(N, C, H, W)``.
        device: Where they are.

    Attributes:
        together: How many steps are drawn at once.
        epoch: Of the batch that comes next.
    """

    def __init__(
        self,
        batches: Batches,
        objective: Objective,
        generators: Mapping[str, torch.Generator],
        shape: torch.Size,
        device: torch.device,
    ) -> None:
        self._batches, self._objective, self._generators, self._shape = batches, objective, generators, shape
        self.together = 1
        if device.type == "cuda" and objective.foreseeable:
            self.together = max(1, min(_STEPS, _VALUES // shape.numel()))
        self._drawn: deque[tuple[int, tuple[Tensor, ...]]] = deque()  # with the epoch of each
        self._before: dict[str, Any] = {}  # where it stood before that was drawn

    def __next__(self) -> tuple[Tensor, ...]:
        if not self._drawn:
            self._before = self._state()
            self._draw()
        return self._drawn.popleft()[1]

    @property
    def epoch(self) -> int:
        """Of the batch that comes next."""
        return self._drawn[0][0] if self._drawn else self._batches.sampler.epoch

    def state_dict(self) -> dict[str, Any]:
        """Where it stood when it last drew, and how many of these steps are taken; so the same are drawn again."""
        if not self._drawn:
            return {**self._state(), "taken": 0}
        return {**self._before, "taken": self.together - len(self._drawn)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        self._drawn.clear()
        self._batches.load_state_dict(state["sampler"])
        for name, generator in self._generators.items():
            generator.set_state(state["generators"][name].cpu())
        for _ in range(state.get("taken", 0)):  # version 0.1 drew one step at a time
            next(self)

    def _state(self) -> dict[str, Any]:
        generators = {name: generator.get_state() for name, generator in self._generators.items()}
        return {"sampler": self._batches.sampler.state_dict(), "generators": generators}

    def _draw(self) -> None:
        generator, epoch = self._generators["method"], self._batches.sampler.epoch
        if self.together == 1:
            self._drawn.append((epoch, self._objective.draw(*next(self._batches), generator)))
            return
        foreseen = [self._objective.foresee(self._shape, generator) for _ in range(self.together)]
        images, labels, epochs = self._batches.take(self.together)
        drawn = self._objective.draw_foreseen(images, labels, foreseen)
        steps = zip(*(each.chunk(self.together) for each in drawn), strict=True)
        self._drawn.extend(zip(epochs, steps, strict=True))
