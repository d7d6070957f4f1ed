"""Cosine similarity, which is SphereConv."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from xcnorm.errors import unknown_name
from xcnorm.nn.forms.angular import ANGULAR
from xcnorm.nn.forms.form import register_relative
from xcnorm.nn.forms.relative import Relative

_EPS = 1e-4  # added to squared lengths, as in the public code
_KINDS = ("cosine", "linear", "sigmoid")


@register_relative("sphere")
class SphereConv2d(Relative):
    """A function of the angle between patch and filter alone (Liu et al., 2017); neither is centred.

    ``g(angle)`` is the cosine, which is cosine similarity, or ``1 - 2 angle / pi``, or a sigmoid of the angle.

    Args:
        *geometry: The arguments of `torch.nn.Conv2d`; there is no bias.
        angular: ``"cosine"``, ``"linear"`` or ``"sigmoid"``.
        **rest: Further arguments of `torch.nn.Conv2d`.

    Example:
        >>> import torch
        >>> layer, image = SphereConv2d(3, 8, 3), torch.rand(1, 3, 8, 8)
        >>> torch.allclose(layer(image), layer(5 * image), atol=1e-3)
        True
    """

    def __init__(self, *geometry: Any, angular: str = "cosine", **rest: Any) -> None:
        if angular not in _KINDS:
            raise ValueError(unknown_name("angular", angular, _KINDS))
        super().__init__(*geometry, **rest)
        self.angular = angular

    def respond(self, input: Tensor) -> Tensor:
        """``g`` of the angles."""
        return ANGULAR[self.angular](self.cosine(input, (self.patch_squares(input) + _EPS).sqrt(), _EPS))
