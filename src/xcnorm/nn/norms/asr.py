"""ASR-Norm: small networks learn what an image's statistics should be."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xcnorm.nn.norms.norm import Norm, per_channel, register_norm
from xcnorm.ops.spec import full_precision

_STANDARDISE, _RESCALE = 2, 16  # how many times narrower the bottlenecks are than the channels
_LITTLE, _LESS = -3.0, -5.0  # logits of the shares that the networks start with


class AdaptiveNorm(Norm):
    """Adaptive standardisation and rescaling (Fan et al., 2021), of each image by itself.

    With mean and deviation of each channel of an image, small networks of one hidden layer propose other ones, of which
    a learnt share is used; scale and shift are learnt functions of the image as well::

        mean' = (1 - a) * mean + a * D1(relu(E1(mean)))
        deviation' = (1 - b) * deviation + b * relu(D2(relu(E1(deviation))))
        shift = bias + c * tanh(D3(relu(E2(mean)))),    scale = weight + d * sigmoid(D4(relu(E2(deviation))))

    Each E and D is a linear layer; E1 has half as many outputs as channels, E2 a sixteenth. The shares a and b start at
    sigmoid(-3), c and d at sigmoid(-5). Without ``affine`` there is only the standardisation. Where a map has a single
    position, which has no deviation, it passes through to the rescaling.

    Args:
        channels: Number of channels.
        affine: Whether rescaling follows.
        eps: Added to the variance inside the root.
        device: Where the parameters live.
        dtype: Their type.

    Shapes:
        ``(N, C, *positions)`` to the same shape.

    Example:
        >>> AdaptiveNorm(32, affine=True)(torch.rand(2, 32, 8, 8)).shape
        torch.Size([2, 32, 8, 8])
    """

    def add_state(self, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        """The bottlenecks and the logits of the shares, in the order of the equations."""
        where = {"device": device, "dtype": dtype}
        self.standardise = _Bottleneck(self.channels, _STANDARDISE, **where)  # type: ignore[arg-type]
        self.rescaling = _Bottleneck(self.channels, _RESCALE, **where) if self.affine else None  # type: ignore[arg-type]
        self.share_logits = nn.Parameter(torch.empty(4 if self.affine else 2, **where))  # type: ignore[arg-type]

    def reset_parameters(self) -> None:
        """Start close to an instance norm."""
        super().reset_parameters()
        nn.init.constant_(self.share_logits[:2], _LITTLE)
        nn.init.constant_(self.share_logits[2:], _LESS)

    def forward(self, input: Tensor) -> Tensor:
        """Everything is computed in float32 or better."""
        with full_precision(input.device):
            values = input if input.dtype == torch.float64 else input.float()
            positions = list(range(2, input.ndim))
            centre = values.mean(positions)
            variance = (values - per_channel(centre, input)).square().mean(positions)
            deviation = (variance + self.eps).sqrt()
            shares = self.share_logits.to(values.dtype).sigmoid()
            output = values
            if math.prod(input.shape[2:]) > 1:
                mean, spread = self.standardise(centre, deviation)
                mean = torch.lerp(centre, mean, shares[0])
                spread = torch.lerp(deviation, spread.relu(), shares[1])
                output = (values - per_channel(mean, input)) / per_channel(spread, input)
            if self.rescaling is not None and self.weight is not None and self.bias is not None:
                shift, scale = self.rescaling(centre, deviation)
                scale = self.weight.to(values.dtype) + shares[3] * scale.sigmoid()
                shift = self.bias.to(values.dtype) + shares[2] * shift.tanh()
                output = output * per_channel(scale, input) + per_channel(shift, input)
            return output.to(input.dtype)


class _Bottleneck(nn.Module):
    """One encoder for mean and deviation, and a decoder for each.

    Its weights are not in linear layers: weight decay is for layers, and a conversion would take them for some.
    """

    def __init__(
        self, channels: int, factor: int, *, device: torch.device | str | None, dtype: torch.dtype | None
    ) -> None:
        super().__init__()
        width = max(channels // factor, 1)
        sizes = {"encoder": (width, channels), "mean": (channels, width), "deviation": (channels, width)}
        for name, size in sizes.items():
            self.register_parameter(f"{name}_weight", nn.Parameter(torch.empty(size, device=device, dtype=dtype)))
            self.register_parameter(f"{name}_bias", nn.Parameter(torch.empty(size[0], device=device, dtype=dtype)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As torch's linear layers."""
        for name in ("encoder", "mean", "deviation"):
            weight, bias = self._layer(name)
            bound = 1 / math.sqrt(weight.shape[1])
            nn.init.uniform_(weight, -bound, bound)
            nn.init.uniform_(bias, -bound, bound)

    def forward(self, mean: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor]:
        """Statistics ``(N, C)`` to what the decoders make of them."""

        def linear(input: Tensor, name: str) -> Tensor:
            weight, bias = self._layer(name)
            return F.linear(input, weight.to(input.dtype), bias.to(input.dtype))

        codes = (linear(statistic, "encoder").relu() for statistic in (mean, deviation))
        return linear(next(codes), "mean"), linear(next(codes), "deviation")

    def _layer(self, name: str) -> tuple[Tensor, Tensor]:
        return self.get_parameter(f"{name}_weight"), self.get_parameter(f"{name}_bias")


@register_norm("asr", per_image=True)
def asr_norm(channels: int, positions: int, *, momentum: float, **settings: object) -> AdaptiveNorm:
    """An `AdaptiveNorm`, for any number of position axes but none."""
    return AdaptiveNorm(channels, **settings)  # type: ignore[arg-type]
