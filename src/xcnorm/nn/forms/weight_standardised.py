"""Weight standardisation: filters of zero mean and unit variance."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from xcnorm.nn.forms.form import register_relative
from xcnorm.nn.forms.relative import Relative


@register_relative("weight_standardised")
class WeightStandardisedConv2d(Relative):
    """A convolution with filters ``(w - mean) / sqrt(variance + eps)`` (Qiao et al., 2019).

    Args:
        *geometry: The arguments of `torch.nn.Conv2d`.
        correction: 0 for the variance as printed, over all values of a filter; 1 for the unbiased one of the code.
        eps: Added to the variance.
        **rest: Further arguments of `torch.nn.Conv2d`.
    """

    can_have_bias: ClassVar[bool] = True

    def __init__(self, *geometry: Any, correction: int = 0, eps: float = 1e-5, **rest: Any) -> None:
        if correction not in (0, 1):
            raise ValueError(f"correction must be 0 or 1, got {correction!r}")
        if not eps > 0:
            raise ValueError(f"eps must be above 0, got {eps!r}")
        super().__init__(*geometry, **rest)
        if self.weight[0].numel() < 2:
            raise ValueError("a filter of one value has no variance; use a larger kernel or fewer groups")
        self.correction, self.eps = correction, eps

    def plain_filters(self) -> Tensor:
        """``(w - mean) / sqrt(variance + eps)``."""
        variance, mean = torch.var_mean(self.weight, (1, 2, 3), correction=self.correction, keepdim=True)
        return (self.weight - mean) * (variance + self.eps).rsqrt()
