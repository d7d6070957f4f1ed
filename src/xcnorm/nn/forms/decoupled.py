"""Decoupled convolution: a function of the patch's length times a function of its angle to the filter."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from xcnorm.errors import unknown_name
from xcnorm.nn.forms.angular import ANGULAR
from xcnorm.nn.forms.form import register_relative
from xcnorm.nn.forms.relative import Relative

_EPS = 1e-4  # added to squared lengths and radii, as in the public code
_MOMENTUM = 0.1
BOUNDED = ("sphere", "ball", "tanh")
UNBOUNDED = ("linear", "segmented", "log", "mixed")
_WITH_RADIUS = ("ball", "tanh", "segmented")


@register_relative("decoupled")
class DecoupledConv2d(Relative):
    """``h(|z|) g(angle)`` for a patch z: its length and its direction count apart (Liu et al., 2018).

    ============== ====================================================== ==========
    magnitude      h
    ============== ====================================================== ==========
    ``"sphere"``   1                                                      bounded
    ``"ball"``     ``min(|z|, r) / r``                                    bounded
    ``"tanh"``     ``tanh(|z| / r)``                                      bounded
    ``"linear"``   ``|z|``                                                unbounded
    ``"segmented"`` ``|z|`` up to r, from there on a line of slope beta   unbounded
    ``"log"``      ``log(1 + |z|)``                                       unbounded
    ``"mixed"``    ``|z| + beta log(1 + |z|)``                            unbounded
    ============== ====================================================== ==========

    The radius r of a filter is learnt, in units of the mean length of the layer's patches: that of the batch in
    training, where gradients pass through it, and a moving average in evaluation.

    Args:
        *geometry: The arguments of `torch.nn.Conv2d`; there is no bias.
        magnitude: ``h``.
        angular: ``g``: ``"cosine"``, ``"linear"``, ``"sigmoid"`` or ``"square"``.
        beta: The number in ``"segmented"`` and ``"mixed"``.
        **rest: Further arguments of `torch.nn.Conv2d`.

    Attributes:
        radius: ``r`` before it is squared, per filter; starts at 1.
        running_length: The moving average of the mean length.

    Example:
        >>> import torch
        >>> layer = DecoupledConv2d(3, 8, 3, magnitude="ball")
        >>> layer(100 * torch.rand(1, 3, 8, 8)).abs().max() <= 1
        tensor(True)
    """

    radius: nn.Parameter
    running_length: Tensor

    def __init__(
        self, *geometry: Any, magnitude: str = "tanh", angular: str = "cosine", beta: float = 0.5, **rest: Any
    ) -> None:
        if magnitude not in BOUNDED + UNBOUNDED:
            raise ValueError(unknown_name("magnitude", magnitude, BOUNDED + UNBOUNDED))
        if angular not in ANGULAR:
            raise ValueError(unknown_name("angular", angular, ANGULAR))
        super().__init__(*geometry, **rest)
        self.magnitude, self.angular, self.beta = magnitude, angular, beta
        if magnitude in _WITH_RADIUS:
            # With one axis: torch's compiler loses updates of float64 buffers that have none.
            self.register_buffer("running_length", self.weight.new_empty(1).detach())
            self.learn(radius=(self.out_channels,))

    @property
    def pools_batch(self) -> bool:
        """With a radius it does."""
        return self.magnitude in _WITH_RADIUS

    def start(self) -> None:
        """Radii of one mean length."""
        if self.magnitude in _WITH_RADIUS:
            nn.init.ones_(self.radius)
            nn.init.ones_(self.running_length)

    def respond(self, input: Tensor) -> Tensor:
        """The product of both functions."""
        length = (self.patch_squares(input) + _EPS).sqrt()
        angular = ANGULAR[self.angular](self.cosine(input, length, _EPS))
        if self.magnitude == "sphere":
            return angular
        if self.magnitude in _WITH_RADIUS:
            return self.by_group(self._within_radius, angular, length)
        return self.by_group(torch.mul, angular, self._unbounded(length))

    def _unbounded(self, length: Tensor) -> Tensor:
        if self.magnitude == "linear":
            return length
        logarithm = length.log1p()
        return logarithm if self.magnitude == "log" else length + self.beta * logarithm

    def _within_radius(self, angular: Tensor, length: Tensor) -> Tensor:
        """``(N, groups, filters, H, W)`` with their patches' lengths ``(N, groups, 1, H, W)``."""
        radius = (self.radius.to(length.dtype).square() + _EPS) * self._mean_length(length)
        radius = radius.view(self.groups, -1, 1, 1)
        if self.magnitude == "ball":
            return angular * (torch.minimum(length, radius) / radius)
        if self.magnitude == "tanh":
            return angular * (length / radius).tanh()
        return angular * (torch.minimum(length, radius) + self.beta * (length - radius).relu())

    def _mean_length(self, length: Tensor) -> Tensor:
        if not self.training:
            return self.running_length.to(length.dtype)
        mean = length.mean()
        with torch.no_grad():
            self.running_length.lerp_(mean.to(self.running_length.dtype), _MOMENTUM)
        return mean
