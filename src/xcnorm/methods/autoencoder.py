"""A Wasserstein auto-encoder (Tolstikhin et al., ICLR 2018) in its adversarial form, WAE-GAN, as M-ADA has it.

Images are coded by a few numbers, whose distribution a discriminator keeps near the standard normal one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_HIDDEN, _CODE, _DISCRIMINATOR = 400, 20, 128
_PENALTY = 100.0  # the weight of the discriminator's verdict
_RATE = 1e-3


class WassersteinAutoencoder(nn.Module):
    """Dense layers from images to a code of 20 numbers and back, a discriminator of codes, and how they learn.

    Args:
        values: The values of an image.

    Attributes:
        encoder: From images to codes.
        decoder: From codes to images, before the sigmoid.
        discriminator: From codes to one number: how normal they look.
        optimiser: Adam, of all three.
    """

    def __init__(self, values: int) -> None:
        super().__init__()
        self.encoder = _dense(values, _HIDDEN, _CODE)
        self.decoder = _dense(_CODE, _HIDDEN, values)
        self.discriminator = _dense(_CODE, _DISCRIMINATOR, 1)
        self._coders = [*self.encoder.parameters(), *self.decoder.parameters()]
        self._discriminating = list(self.discriminator.parameters())
        self.optimiser = torch.optim.Adam([*self._coders, *self._discriminating], _RATE, fused=True)

    def forward(self, images: Tensor) -> Tensor:
        """Images ``(N, C, H, W)`` from 0 to 1, or beyond, to their reconstructions, from 0 to 1."""
        made: Tensor = self.decoder(self.encoder(images.flatten(1))).sigmoid()
        return made.view(images.shape)

    def reset(self, generator: torch.Generator) -> None:
        """Forget everything; the first weights are drawn as torch draws those of dense layers."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                bound = module.in_features**-0.5
                for parameter in module.parameters():
                    drawn = torch.empty(parameter.shape).uniform_(-bound, bound, generator=generator)
                    with torch.no_grad():
                        parameter.copy_(drawn)
        self.optimiser.state.clear()

    def losses(self, images: Tensor, prior: Tensor) -> tuple[Tensor, Tensor]:
        """What encoder and decoder minimise, and what the discriminator does.

        Args:
            images: ``(N, C, H, W)``, from 0 to 1.
            prior: Codes as they should be, ``(N, 20)``, standard normal.
        """
        inputs = images.flatten(1)
        codes = self.encoder(inputs)
        mistakes = F.binary_cross_entropy_with_logits(self.decoder(codes), inputs, reduction="sum")
        # All verdicts are shifted by the log density of the prior's codes.
        shift = -0.5 * (prior.square().sum(1, keepdim=True) + _CODE * math.log(2 * math.pi))
        true, false = self.discriminator(prior) + shift, self.discriminator(codes) + shift
        discriminated = F.softplus(-true).mean() + F.softplus(false).mean()
        return mistakes + _PENALTY * F.softplus(-false).mean(), discriminated

    def fit(self, images: Tensor, prior: Tensor) -> None:
        """One step of all three, each on its own loss.

        Args:
            images: ``(N, C, H, W)``, from 0 to 1.
            prior: ``(N, 20)``, standard normal.
        """
        coded, discriminated = self.losses(images, prior)
        slopes = torch.autograd.grad(coded, self._coders, retain_graph=True)
        slopes += torch.autograd.grad(discriminated, self._discriminating)
        for parameter, slope in zip([*self._coders, *self._discriminating], slopes, strict=True):
            parameter.grad = slope
        self.optimiser.step()

    def draw_prior(self, count: int, generator: torch.Generator) -> Tensor:
        """Codes as they should be, ``(count, 20)``, where the weights are."""
        return torch.randn(count, _CODE, generator=generator).to(self._discriminating[0])

    def whole_state(self) -> dict[str, Any]:
        """Weights, and the optimiser's memory."""
        return {"weights": self.state_dict(), "optimiser": self.optimiser.state_dict()}

    def load_whole_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        self.load_state_dict(state["weights"])
        self.optimiser.load_state_dict(state["optimiser"])


def _dense(values: int, hidden: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(values, hidden), nn.ReLU(), nn.Linear(hidden, out))
