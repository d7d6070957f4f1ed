"""The stages of a layer after the similarity, and the scale of its robust function."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

import xcnorm.functional as xf
from xcnorm.nn.norm import InstanceNorm, make_norm
from xcnorm.nn.options import Options
from xcnorm.ops import Finish, Response, Similarity
from xcnorm.ops.finish import TAU_MINIMUM, Averages, exponent

_MASK_BIAS = 2.0


class NormAttentionMask(nn.Module):
    """Norm-based attention mask (NBAM), eq. (mask): trust the normalised output less where the patch is flat.

    Starts near pure NCC (a mask of 0.88 everywhere) and learns where to deviate from it.

    Args:
        groups: Number of groups, each with a norm map of its own.
        alpha: Values in a patch; the mask looks at ``norm / sqrt(alpha)``, so that it means the same in every layer.
        positions: Number of position axes; 0 for dense layers, where psi is one multiplication.
        device: Where the parameters live.
        dtype: Their type.
    """

    def __init__(
        self,
        groups: int,
        alpha: int,
        positions: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.alpha = alpha
        self.weight = nn.Parameter(torch.empty(groups, 1, *(3,) * positions, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(groups, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start from a constant mask, close to pure NCC."""
        nn.init.zeros_(self.weight)
        nn.init.constant_(self.bias, _MASK_BIAS)

    def forward(self, similarity: Tensor, norm: Tensor) -> Tensor:
        """``U2`` and ``||z~||`` to ``U3``."""
        weight, bias = self.weight.to(norm.dtype), self.bias.to(norm.dtype)
        mask = xf.attention_mask(norm / math.sqrt(self.alpha), weight, bias)
        return xf.masked_similarity(similarity, norm, mask)

    def extra_repr(self) -> str:
        """Arguments for ``repr``."""
        return f"groups={self.weight.shape[0]}, kernel={tuple(self.weight.shape[2:])}"


class Stages(nn.Module):
    """Rectify, sharpen, gain, mask, channel norm: from a `Similarity` to a layer's output.

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

        tau_shape = (channels, *(1,) * positions) if options.tau_per_channel else ()
        self.register_parameter("raw_tau", None if options.tau == "none" else parameter(*tau_shape))
        self.register_parameter("gain", None if options.gain == "none" else parameter(channels))
        self.mask = NormAttentionMask(groups, alpha, positions, device=device, dtype=dtype) if options.mask else None
        self.norm = make_norm(options.norm, channels, positions, momentum=options.momentum, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set tau to its initial value, and the gain so that the stage before the norm has unit scale."""
        tau = 1.0
        if self.raw_tau is not None:
            assert self.options.tau != "none"
            tau = self.options.tau
            nn.init.constant_(self.raw_tau, inverse_softplus(tau - TAU_MINIMUM))
        if self.gain is not None:
            # Unrelated patches have an NCC of deviation 1 / sqrt(alpha).
            before = self.options.gain == "before_norm"
            nn.init.constant_(self.gain, self.alpha ** (tau / 2) if before else 1.0)

    @property
    def tau(self) -> Tensor | None:
        """The sharpening exponent, kept above 0.5 where its slope stays usable; None if it is off."""
        return None if self.raw_tau is None else exponent(self.raw_tau)

    def forward(self, similarity: Similarity) -> Tensor:
        """Run the stages that are on, in the paper's order."""
        output = xf.rectify(similarity.value, self.options.rectify)
        dtype = output.dtype
        if (tau := self.tau) is not None:
            output = xf.sharpen(output, tau.to(dtype))
        if self.gain is not None and self.options.gain == "before_norm":
            output = xf.gain(output, self.gain.to(dtype))
        if self.mask is not None:
            output = self.mask(output, similarity.norm)
        if isinstance(self.norm, _BatchNorm) and self.norm.running_mean is not None:
            # In a layer moved to half precision as a whole, the moving averages set the norm's dtype.
            output = output.to(self.norm.running_mean.dtype)
        output = self.norm(output).to(dtype)
        if self.gain is not None and self.options.gain == "after_norm":
            output = xf.gain(output, self.gain.to(dtype))
        return output

    def finish(self, images: int, positions: int, scale: RobustScale | None = None) -> Finish | None:
        """The stages as a fused backend takes them; None if it has to leave them to `forward`.

        A backend pools positions and, in one process, images; it cannot speak to other processes as a synchronised
        norm may, nor pool channels. What has no statistics, or is refused for that, is left to the norm itself.

        Args:
            images: Of the batch.
            positions: Of an image's output.
            scale: Of the layer's robust function; None without one.
        """
        norm, options = self.norm, self.options
        mean = variance = None
        eps = 0.0
        if type(norm) is nn.Identity or (type(norm) is InstanceNorm and positions == 1):
            statistics = "none"
        elif type(norm) is InstanceNorm:
            statistics, eps = "instance", norm.eps
        elif type(norm) in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d) or not getattr(norm, "communicates", True):
            assert isinstance(norm, _BatchNorm)
            statistics, eps = "batch", norm.eps
            if not norm.training and norm.running_mean is not None and norm.running_var is not None:
                statistics, mean, variance = "given", norm.running_mean.float(), norm.running_var.float()
            elif images * positions < 2 or (norm.training and norm.momentum is None):  # None: an average of all batches
                return None
        else:
            return None
        return Finish(
            rectify=options.rectify,
            raw_tau=None if self.raw_tau is None else self.raw_tau.float(),
            gain=None if self.gain is None else self.gain.float(),
            gain_after=options.gain == "after_norm",
            mask=None if self.mask is None else (self.mask.weight.float(), self.mask.bias.float()),
            statistics=statistics,
            mean=mean,
            variance=variance,
            eps=eps,
            averages=self._averages(scale),
        )

    def _averages(self, scale: RobustScale | None) -> Averages | None:
        """What a training step moves; nothing here if the scale speaks to other processes."""
        if scale is not None and type(scale) is not RobustScale:
            return None
        norm = self.norm
        if not isinstance(norm, _BatchNorm) or not norm.training or norm.running_mean is None:
            mean = variance = batches = None
            momentum = 0.0
        else:
            mean, variance, batches = norm.running_mean, norm.running_var, norm.num_batches_tracked
            assert norm.momentum is not None
            momentum = norm.momentum
        c = scale.running_c if scale is not None and scale.training and scale.options.scale == "ema" else None
        if mean is None and c is None:
            return None
        return Averages(mean, variance, batches, momentum, c, self.options.momentum)

    def track(self, response: Response) -> None:
        """Move the norm's averages towards a batch's statistics, as torch's batch norm does."""
        norm = self.norm
        if not isinstance(norm, _BatchNorm) or not norm.training or norm.running_mean is None:
            return
        assert norm.running_var is not None
        assert norm.num_batches_tracked is not None
        assert norm.momentum is not None
        count = response.output.numel() // response.output.shape[1]
        norm.num_batches_tracked.add_(1)
        norm.running_mean.lerp_(response.mean.to(norm.running_mean.dtype), norm.momentum)
        unbiased = response.variance * (count / (count - 1))
        norm.running_var.lerp_(unbiased.to(norm.running_var.dtype), norm.momentum)


class RobustScale(nn.Module):
    """The scale c of the robust function: a moving average, a parameter, or a multiple of the patch's deviation.

    The paper calls c learnable and in the next sentence updates it as a moving average of the patches' standard
    deviation; both cannot be the rule, so both are offered. Both start from a large value.

    Args:
        options: The layer's options.
        device: Where the buffer or parameter lives.
        dtype: Its type.
    """

    running_c: Tensor
    raw_c: nn.Parameter

    def __init__(
        self,
        options: Options,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.options = options
        # A smaller c would mean a deviation that the layer treats as flat everywhere else.
        self.minimum = math.sqrt(options.eps)
        if options.scale == "ema":
            # One axis: torch's compiler loses updates of float64 buffers that have none.
            self.register_buffer("running_c", torch.empty(1, device=device, dtype=dtype))
        elif options.scale == "parameter":
            self.raw_c = nn.Parameter(torch.empty((), device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set c to its initial value."""
        if self.options.scale == "ema":
            nn.init.constant_(self.running_c, self.options.c_init)
        elif self.options.scale == "parameter":
            nn.init.constant_(self.raw_c, inverse_softplus(max(self.options.c_init - self.minimum, 1e-6)))

    def forward(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """The c to use, in a dtype and on a device."""
        if self.options.scale == "ema":
            # The clamp makes a copy: the buffer moves on in place while this value waits for its backward.
            return self.running_c[0].to(dtype).clamp_min(self.minimum)
        if self.options.scale == "parameter":
            return F.softplus(self.raw_c).to(dtype) + self.minimum
        return torch.full((), self.options.c_init, dtype=dtype, device=device)

    def update(self, deviation: Tensor) -> None:
        """Move the average towards a batch's mean patch deviation, in training mode only; without patches it stays."""
        if self.training and self.options.scale == "ema" and deviation.numel():
            # Detached, not under no_grad: such a region costs torch.export a split of the whole graph per layer.
            self.running_c.lerp_(deviation.detach().mean().to(self.running_c.dtype), self.options.momentum)

    def extra_repr(self) -> str:
        """Arguments for ``repr``."""
        return f"{self.options.scale}, c_init={self.options.c_init}"


def inverse_softplus(value: float) -> float:
    """The number whose softplus is ``value``, for positive values."""
    return value + math.log(-math.expm1(-value))
