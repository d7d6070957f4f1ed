"""What convolutional and dense XCNorm layers have in common."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from xcnorm import ops
from xcnorm.nn.options import Options, resolve
from xcnorm.nn.scale import REDUCTIONS, MovingScale, RobustScale
from xcnorm.nn.stages import Stages
from xcnorm.ops.spec import autocast_dtype, full_precision

SMALLEST_PATCH = 16
"""Networks and `xcnorm.convert` leave layers with fewer values in a patch plain: a correlation of so few values has
hardly a direction left to choose."""


def refuse_bias(bias: bool) -> None:
    """Raise a ValueError for ``bias=True``."""
    if bias:
        raise ValueError("bias=True is not supported: XCNorm layers have none, as in the paper; use bias=False")


class XCNormLayer(nn.Module):
    """Base of all XCNorm and R-XCNorm layers: a similarity, then the stages of the paper.

    Attributes:
        weight: The filters, raw; they are centred and normalised on every call.
        options: The layer's options, presets resolved.
        stages: Everything after the similarity.
        scale: The scale c of the robust function; None without one.
    """

    robust: ClassVar[bool] = False
    dense: ClassVar[bool] = False

    weight: Tensor
    options: Options
    stages: Stages
    scale: RobustScale | None

    def _add_stages(
        self,
        options: dict[str, Any],
        positions: int,
        groups: int,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        self.options = resolve(options, robust=self.robust, dense=self.dense)
        channels, alpha = self.weight.shape[0], self.weight[0].numel()
        if alpha < 2:
            raise ValueError(
                "a patch of one value has no correlation: kernel and input channels per group are all 1; "
                "use a larger kernel, fewer groups or a plain layer"
            )
        if self.options.channelwise and alpha == self.weight.shape[1]:
            raise ValueError(
                "channelwise=True needs a kernel larger than 1: one value per channel, standardised, is always zero"
            )
        self.stages = Stages(self.options, channels, groups, alpha, positions, device=device, dtype=dtype)
        self.scale = None
        if self.robust:
            settings = {"eps": self.options.eps, "momentum": self.options.momentum}
            self.scale = REDUCTIONS[self.options.scale](self.options.c_init, **settings, device=device, dtype=dtype)

    @property
    def correlation(self) -> ops.Correlation:
        """The similarity that the layer asks of a backend; its stages are the rest."""
        raise NotImplementedError

    @property
    def backend(self) -> str | None:
        """Name of the backend the layer insists on, if any."""
        return self.options.backend

    @property
    def tau(self) -> Tensor | None:
        """The sharpening exponent; None if it is off."""
        return self.stages.tau

    @property
    def running_c(self) -> Tensor | None:
        """The moving average c, with ``scale="ema"``; None otherwise."""
        return self.scale.running_c[0] if isinstance(self.scale, MovingScale) else None

    def reset_parameters(self) -> None:
        """Initialise the filters; stages and scale reset themselves. Only the filters' direction matters."""
        nn.init.kaiming_normal_(self.weight, nonlinearity="relu")

    def _check_input(self, input: Tensor, channels: int) -> None:
        if not input.is_floating_point():
            raise TypeError(f"input must be a floating-point tensor, got {input.dtype}; convert it with input.float()")
        if input.dtype != self.weight.dtype and autocast_dtype(input.device) is None:
            raise TypeError(
                f"input is {input.dtype} but the layer is {self.weight.dtype}; convert one of them with .to(dtype)"
            )
        if channels != (expected := self.weight.shape[1] * self.correlation.groups):
            raise ValueError(
                f"input has {channels} channels, shape {tuple(input.shape)}, but the layer was made for {expected}"
            )

    def _respond(self, input: Tensor) -> Tensor:
        """From a batch ``(N, C_in, *sizes)`` to the layer's output ``(N, C_out, *positions)``."""
        # Statistics are taken in float32 or better whatever autocast says; only the large products follow it.
        dtype = torch.float64 if input.dtype == torch.float64 else torch.float32
        compute_dtype = input.dtype
        if (autocast := autocast_dtype(input.device)) is not None and input.dtype != torch.float64:
            compute_dtype = autocast
        correlation = self.correlation
        with full_precision(input.device):
            backend, _ = ops.choose(input, correlation, self.backend)
            spec = self.stages.spec(correlation, self.scale, input, compute_dtype, dtype)
            output, deviation = backend.respond(input, self.weight.to(dtype), spec)
            if self.scale is not None:
                self.scale.update(deviation)
            output = self.stages.rest(output, spec)
        return output.to(compute_dtype)

    def extra_repr(self) -> str:
        """Torch's own arguments, then the options that differ from the default."""
        default = resolve({}, robust=self.robust, dense=self.dense)
        changed = [f"{name}={value!r}" for name, value in vars(self.options).items() if value != getattr(default, name)]
        return ", ".join([super().extra_repr(), *changed])
