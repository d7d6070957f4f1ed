"""Weight normalisation: filters as a length and a direction."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from xcnorm.nn.forms.form import register_relative
from xcnorm.nn.forms.relative import Relative, unit_filters


@register_relative("weight_normalised")
class WeightNormalisedConv2d(Relative):
    """A convolution with filters ``g v / |v|``, both learnt (Salimans and Kingma, 2016).

    It starts as the plain convolution that it replaces: g at ``|v|``.

    Args:
        *geometry: The arguments of `torch.nn.Conv2d`.
        **rest: Further arguments of `torch.nn.Conv2d`.

    Attributes:
        weight: The directions v.
        length: The lengths g.
    """

    can_have_bias: ClassVar[bool] = True

    length: nn.Parameter

    def __init__(self, *geometry: Any, **rest: Any) -> None:
        super().__init__(*geometry, **rest)
        self.learn(length=(self.out_channels,))

    def start(self) -> None:
        """The lengths that the filters have."""
        with torch.no_grad():
            self.length.copy_(self.weight.flatten(1).norm(dim=1))

    def plain_filters(self) -> Tensor:
        """``g v / |v|``."""
        return unit_filters(self.weight, torch.finfo(self.weight.dtype).tiny) * self.length.view(-1, 1, 1, 1)
