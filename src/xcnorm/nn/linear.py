"""Dense layers: the patch is the whole input vector."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from xcnorm import ops
from xcnorm.nn.layer import XCNormLayer, refuse_bias
from xcnorm.nn.options import RobustOptions


class XCNormLinear(XCNormLayer, nn.Linear):
    """Normalised cross-correlation in place of a dense layer and its activation: the case H = W = K = 1.

    Takes the arguments of `torch.nn.Linear`, then the keyword options of `xcnorm.nn.StageOptions`. There is one
    value per channel and sample, so ``norm="instance"`` is refused and the default norm is ``"batch"``, which
    needs more than one sample in training mode.

    Shapes:
        ``(..., in_features)`` to ``(..., out_features)``; the channel norm pools over all leading axes.

    Example:
        >>> XCNormLinear(32, 8)(torch.randn(4, 32)).shape
        torch.Size([4, 8])
    """

    dense = True

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Unpack[RobustOptions],
    ) -> None:
        for name, value in (("in_features", in_features), ("out_features", out_features)):
            if isinstance(value, bool) or not isinstance(value, Integral):
                raise TypeError(f"{name} must be an integer, got {value!r}")
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value!r}")
        refuse_bias(bias)
        arguments: tuple[Any, ...] = (in_features, out_features, False, device, dtype)
        super().__init__(*arguments)
        self._add_stages(dict(options), 0, 1, device, dtype)

    @property
    def correlation(self) -> ops.Correlation:
        """The similarity that the layer asks of a backend."""
        return ops.Correlation(
            kernel=(),
            stride=(),
            dilation=(),
            robust=self.options.robust,
            per_patch=self.scale is not None and self.scale.per_patch,
            eps=self.options.eps,
        )

    def forward(self, input: Tensor) -> Tensor:
        """``(..., in_features)`` to ``(..., out_features)``."""
        if input.ndim == 0:
            raise ValueError("input must have at least one axis, got a scalar")
        self._check_input(input, input.shape[-1])
        return self._respond(input.reshape(-1, self.in_features)).view(*input.shape[:-1], self.out_features)


class RXCNormLinear(XCNormLinear):
    """Robust normalised cross-correlation in place of a dense layer; see `xcnorm.nn.RobustOptions`.

    Example:
        >>> RXCNormLinear(32, 8, robust="huber")(torch.randn(4, 32)).shape
        torch.Size([4, 8])
    """

    robust = True
