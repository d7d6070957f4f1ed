"""The parameters of the stages after a similarity, and how a backend is told of them."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

import xcnorm.functional as xf
from xcnorm.functional.gain import initial_gain
from xcnorm.functional.sharpen import exponent, raw_exponent
from xcnorm.nn.norms import BatchTestNorm, InstanceNorm, make_norm
from xcnorm.nn.options import Options
from xcnorm.nn.scale import RobustScale
from xcnorm.ops import Averages, ChannelNorm, Correlation, Spec


class Stages(nn.Module):
    """Rectify, sharpen, gain, mask, channel norm: what of them is learnt, and the `Spec` of all.

    Args:
        options: The layer's options.
        channels: Its output channels.
        groups: Its groups.
        alpha: Values in a patch.
        positions: Number of position axes.
        device: Where parameters and buffers live.
        dtype: Their type.
    """

    raw_tau: nn.Parameter | None
    gain: nn.Parameter | None

    def __init__(
        self,
        options: Options,
        channels: int,
        groups: int,
        alpha: int,
        positions: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.options = options
        self.alpha = alpha

        def parameter(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, device=device, dtype=dtype))

        self.register_parameter("raw_tau", None if options.tau == "none" else parameter())
        self.register_parameter("gain", None if options.gain == "none" else parameter(channels))
        mask = xf.NormAttentionMask(groups, alpha, positions, device=device, dtype=dtype) if options.mask else None
        self.mask = mask
        self.norm = make_norm(options.norm, channels, positions, momentum=options.momentum, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set tau to its initial value, and the gain so that the stage before the norm has unit scale."""
        tau = 1.0
        if self.raw_tau is not None:
            assert self.options.tau != "none"
            tau = self.options.tau
            nn.init.constant_(self.raw_tau, raw_exponent(tau))
        if self.gain is not None:
            before = self.options.gain == "before_norm"
            nn.init.constant_(self.gain, initial_gain(self.alpha, tau) if before else 1.0)

    @property
    def tau(self) -> Tensor | None:
        """The sharpening exponent, kept above 0.5 where its slope stays usable; None if it is off."""
        return None if self.raw_tau is None else exponent(self.raw_tau)

    def spec(
        self,
        correlation: Correlation,
        scale: RobustScale | None,
        input: Tensor,
        compute_dtype: torch.dtype,
        dtype: torch.dtype,
    ) -> Spec:
        """The `Spec` of the layer: what a backend is asked.

        Args:
            correlation: The similarity before the stages.
            scale: Of its robust function; None without one.
            input: ``(N, C_in, *sizes)``.
            compute_dtype: Of the large products.
            dtype: Of the statistics, and of all numbers handed on.
        """

        def given(number: Tensor | None) -> Tensor | None:
            return None if number is None else number.to(dtype)

        norm = self._channel_norm(input.shape[0], math.prod(correlation.outputs(input.shape[2:])), dtype)
        after = self.options.gain == "after_norm"
        return Spec(
            correlation=correlation,
            compute_dtype=compute_dtype,
            c=None if scale is None else scale(dtype, input.device),
            rectify=self.options.rectify,
            raw_tau=given(self.raw_tau),
            gain=None if after and norm is None else given(self.gain),
            gain_after=after,
            mask=None if self.mask is None else (self.mask.weight.to(dtype), self.mask.bias.to(dtype)),
            norm=norm,
            averages=self._averages(norm, scale),
        )

    def rest(self, output: Tensor, spec: Spec) -> Tensor:
        """From a backend's output to the layer's: a channel norm that no backend can be told of, and what follows."""
        if spec.norm is not None:
            return output
        dtype = output.dtype
        if isinstance(self.norm, _BatchNorm) and self.norm.running_mean is not None:
            # In a layer moved to half precision as a whole, the moving averages set the norm's dtype.
            output = output.to(self.norm.running_mean.dtype)
        output = self.norm(output).to(dtype)
        if self.gain is not None and spec.gain_after:
            output = xf.gain(output, self.gain.to(dtype))
        return output

    def _channel_norm(self, images: int, positions: int, dtype: torch.dtype) -> ChannelNorm | None:
        """The norm as a backend takes it; None if it has to run by itself.

        A backend pools positions and, in one process, images; it cannot speak to other processes as a synchronised
        norm may, nor pool channels, nor scale and shift as an affine norm does. What has no
        statistics, or is refused for that, is left to the norm itself.
        """
        norm = self.norm
        if getattr(norm, "affine", False):  # a backend scales and shifts nothing
            return None
        if type(norm) is nn.Identity or (type(norm) is InstanceNorm and positions == 1):
            return ChannelNorm()
        if type(norm) is InstanceNorm:
            return ChannelNorm("instance", eps=norm.eps)
        known = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, BatchTestNorm)
        if type(norm) not in known and getattr(norm, "communicates", True):
            return None
        assert isinstance(norm, _BatchNorm)
        averages = not norm.training and not isinstance(norm, BatchTestNorm)
        if averages and norm.running_mean is not None and norm.running_var is not None:
            return ChannelNorm("given", norm.running_mean.to(dtype), norm.running_var.to(dtype), norm.eps)
        if images * positions < 2 or (norm.training and norm.momentum is None):  # None: an average of all batches
            return None
        return ChannelNorm("batch", eps=norm.eps)

    def _averages(self, channel_norm: ChannelNorm | None, scale: RobustScale | None) -> Averages:
        """The moving averages that a training step moves."""
        norm = self.norm
        c, c_momentum = (None, 0.0) if scale is None else (scale.average, scale.momentum)
        if channel_norm is None or not isinstance(norm, _BatchNorm) or not norm.training or norm.running_mean is None:
            return Averages(c=c, c_momentum=c_momentum)
        assert norm.momentum is not None
        return Averages(norm.running_mean, norm.running_var, norm.num_batches_tracked, norm.momentum, c, c_momentum)
