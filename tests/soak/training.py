"""Long trainings of every variant beside a shadow in float64, and what is watched in them."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.soak.variants import SHAPES, VARIANTS, Tiny, batch
from xcnorm.functional.sharpen import TAU_MINIMUM
from xcnorm.nn.layer import XCNormLayer

# A shadow that has to choose, as a dictionary does, chooses something else as soon as a rounding decides.
UNSHADOWED = ("dictionary",)
_EVERY = 10  # steps; statistics and weights that went wrong once stay wrong


class Soak:
    """Networks of several variants, which are trained at once, and their shadows.

    A shadow has the same weights and sees the same images, in float64, so that its moving averages are what those of
    the variant should be.

    Args:
        names: Of `VARIANTS`.
        precision: ``"float32"``, or ``"bf16"`` by autocast.

    Attributes:
        step: How many steps were done.
        networks: By name.
        worst: By name, how far a moving average was from the shadow's at most, relative to the larger of it and one.
    """

    def __init__(self, names: Iterable[str], precision: str) -> None:
        torch.manual_seed(0)
        self.step, self.precision = 0, precision
        self.networks = nn.ModuleDict({name: VARIANTS[name]() for name in names})
        self.shadows = copy.deepcopy(self.networks).double()
        self.worst = dict.fromkeys(self.networks, 0.0)
        self._own, self._shadowed = list(self.networks.parameters()), list(self.shadows.parameters())
        self._optimiser = torch.optim.Adam(self._own, lr=3e-3, fused=True)

    def advance(self) -> None:
        """Train for a step.

        Raises:
            AssertionError: Something is not as it must be.
        """
        generator = torch.Generator().manual_seed(self.step)
        batches = {rank: batch(rank, generator) for rank in SHAPES}
        with torch.no_grad():
            torch._foreach_copy_(self._shadowed, self._own)
            for name, shadow in self.shadows.items():
                if name not in UNSHADOWED:
                    shadow(batches[shadow.rank][0].double())
        losses = []
        with torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "bf16"):
            for network in self.networks.values():
                images, labels = batches[network.rank]
                losses.append(F.cross_entropy(network(images).float(), labels))
        values = torch.stack(losses)
        assert values.isfinite().all(), self._told("a loss", self._not_finite(losses))
        self._optimiser.zero_grad()
        values.sum().backward()
        self._optimiser.step()
        self.step += 1
        if self.step % _EVERY == 0:
            self._check()

    def _check(self) -> None:
        for (name, network), shadow in zip(self.networks.items(), self.shadows.values(), strict=True):
            tensors = [*network.parameters(), *network.buffers()]
            assert all(map(_finite, tensors)), self._told("a weight or average", [name])
            _check_bounds(network, self._told("c or tau", [name]))
            if name not in UNSHADOWED:
                pairs = zip(network.buffers(), shadow.buffers(), strict=True)
                self.worst[name] = max([self.worst[name], *(_deviation(ours, exact) for ours, exact in pairs)])

    def _not_finite(self, losses: list[Tensor]) -> list[str]:
        return [name for name, loss in zip(self.networks, losses, strict=True) if not _finite(loss)]

    def _told(self, what: str, names: list[str]) -> str:
        return f"{what} of {', '.join(names)} went wrong in step {self.step} of {self.precision}"

    def state(self) -> dict[str, object]:
        """What it takes to go on."""
        return {
            "networks": self.networks.state_dict(),
            "shadows": self.shadows.state_dict(),
            "optimiser": self._optimiser.state_dict()["state"],
            "worst": self.worst,
        }

    def load(self, step: int, state: dict) -> None:
        """Go on from there."""
        self.step, self.worst = step, state["worst"]
        self.networks.load_state_dict(state["networks"])
        self.shadows.load_state_dict(state["shadows"])
        groups = self._optimiser.state_dict()["param_groups"]
        self._optimiser.load_state_dict({"state": state["optimiser"], "param_groups": groups})


def _finite(tensor: Tensor) -> bool:
    return bool(tensor.isfinite().all())


def _deviation(ours: Tensor, exact: Tensor) -> float:
    return float(((ours.double() - exact).abs() / exact.abs().clamp_min(1)).max())


def _check_bounds(network: Tiny, complaint: str) -> None:
    for layer in network.modules():
        if not isinstance(layer, XCNormLayer):
            continue
        if layer.tau is not None:
            assert TAU_MINIMUM <= layer.tau.item() < math.inf, complaint
        if layer.scale is not None:
            c = layer.scale(torch.float32, torch.device("cpu")).item()
            assert max(layer.scale.minimum * 0.999, 1e-9) < c < math.inf, complaint
