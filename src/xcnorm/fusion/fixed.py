"""Fixed stages and scales: those of a layer that is not trained any more."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from xcnorm.functional import normalise_weight
from xcnorm.nn import BatchTestNorm, InstanceNorm, PatchScale, RobustScale, Stages, XCNormLayer
from xcnorm.ops import Averages, ChannelNorm, Correlation, Spec


class FixedScale(RobustScale):
    """A c that is a constant.

    Args:
        scale: The scale that it is taken from.
    """

    c: Tensor

    def __init__(self, scale: RobustScale) -> None:
        nn.Module.__init__(self)
        self.c_init, self.momentum, self.minimum = scale.c_init, 0.0, scale.minimum
        self.per_patch = scale.per_patch  # type: ignore[misc]  # that of another class
        like = next((each for each in (*scale.parameters(), *scale.buffers())), torch.empty(()))
        self.register_buffer("c", scale(like.dtype, like.device).detach().clone())

    def forward(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """The constant."""
        return self.c.to(dtype)

    def extra_repr(self) -> str:
        """Arguments for ``repr``."""
        return f"c={self.c.item():g}"


class FixedStages(Stages):
    """Stages whose numbers are constants: gain and batch statistics are one factor and one shift for each channel.

    Args:
        stages: The stages that they are taken from, in evaluation mode.
    """

    shift: Tensor | None

    def __init__(self, stages: Stages) -> None:
        nn.Module.__init__(self)
        self.options, self.alpha = stages.options, stages.alpha
        self.mask, self.norm = stages.mask, stages.norm
        gain: Tensor | None = stages.gain
        shift: Tensor | None = None
        if stands_still(self.norm):
            gain, shift = _folded(gain, self.norm, after=self.options.gain == "after_norm")
            self.norm = nn.Identity()
        for name, value in (("raw_tau", stages.raw_tau), ("gain", gain), ("shift", shift)):
            self.register_buffer(name, None if value is None else value.detach().clone())

    def spec(
        self,
        correlation: Correlation,
        scale: RobustScale | None,
        input: Tensor,
        compute_dtype: torch.dtype,
        dtype: torch.dtype,
    ) -> Spec:
        """The `Spec` of the layer, whose filters are of unit length."""
        spec = super().spec(correlation, scale, input, compute_dtype, dtype)
        return replace(spec, gain_after=spec.gain_after and self.shift is None, unit_filters=True)

    def _channel_norm(self, images: int, positions: int, dtype: torch.dtype) -> ChannelNorm | None:
        if self.shift is None:
            return super()._channel_norm(images, positions, dtype)
        shift = self.shift.to(dtype)
        return ChannelNorm("given", -shift, torch.ones_like(shift))

    def _averages(self, channel_norm: ChannelNorm | None, scale: RobustScale | None) -> Averages:
        return Averages()


def fix(layer: XCNormLayer) -> tuple[list[str], str]:
    """Make constants of all that a layer has learnt, in its place.

    Args:
        layer: In evaluation mode.

    Returns:
        What was folded, and what stays.
    """
    with torch.no_grad():
        unit = normalise_weight(layer.weight.double()).to(layer.weight.dtype)
    layer.weight = nn.Parameter(unit, requires_grad=False)
    folded = ["filters"]
    if layer.scale is not None and not isinstance(layer.scale, PatchScale):
        layer.scale = FixedScale(layer.scale)
        folded.append("c")
    stages, layer.stages = layer.stages, FixedStages(layer.stages)
    folded += ["tau"] * (stages.raw_tau is not None) + ["gain"] * (stages.gain is not None)
    if stands_still(stages.norm):
        return [*folded, "norm"], ""
    return folded, _WHY.get(type(stages.norm), f"its norm, {type(stages.norm).__name__}, looks at each image")


_WHY = {nn.Identity: "", InstanceNorm: "its norm takes the statistics of each image"}


def stands_still(norm: nn.Module) -> bool:
    """Whether a norm is one factor and one shift for each channel in evaluation."""
    return isinstance(norm, _BatchNorm) and not isinstance(norm, BatchTestNorm) and norm.running_mean is not None


def _folded(gain: Tensor | None, norm: nn.Module, *, after: bool) -> tuple[Tensor, Tensor]:
    """Factor and shift of a gain and a norm, computed in float64."""
    assert isinstance(norm, _BatchNorm)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    rate = (norm.running_var.double() + norm.eps).rsqrt()
    factor, shift = rate, -norm.running_mean.double() * rate
    if norm.weight is not None:
        factor, shift = factor * norm.weight.double(), shift * norm.weight.double()
    if norm.bias is not None:
        shift = shift + norm.bias.double()
    if gain is not None:
        factor = factor * gain.double()
        shift = shift * gain.double() if after else shift
    dtype = norm.running_mean.dtype
    return factor.to(dtype), shift.to(dtype)
