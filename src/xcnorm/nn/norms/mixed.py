"""A learnt mix of batch and instance statistics, which is DSON for a single source."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from xcnorm.nn.norms.norm import Norm, per_channel, register_norm


class MixedNorm(Norm):
    """Standardise with a mean and a variance that are each a learnt mix of the batch's and the image's own.

    DSON (Seo et al., 2020) has such a norm for each source domain; a single source leaves one::

        mean = a * mean_image + (1 - a) * mean_batch,    variance = b * variance_image + (1 - b) * variance_batch

    with a and b, one number each, starting at one half. In evaluation moving averages stand for the batch.

    Args:
        channels: Number of channels.
        affine: Whether a learnable scale and shift per channel follow.
        eps: Added to the variance inside the root.
        momentum: Weight of the newest batch in the moving averages.
        device: Where parameters and buffers live.
        dtype: Their type.

    Attributes:
        mean_logit: What a is learnt as: ``a = sigmoid(mean_logit)``.
        variance_logit: The same for b.

    Shapes:
        ``(N, C, *positions)`` to the same shape.

    Example:
        >>> MixedNorm(4)(torch.rand(2, 4, 8, 8)).shape
        torch.Size([2, 4, 8, 8])
    """

    pools_batch: ClassVar[bool] = True

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(
        self,
        channels: int,
        *,
        affine: bool = False,
        eps: float = 1e-5,
        momentum: float = 0.1,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(channels, affine=affine, eps=eps, device=device, dtype=dtype)
        self.momentum = momentum

    def add_state(self, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        """The two shares, and moving averages under the names of torch's."""
        self.mean_logit = nn.Parameter(torch.empty((), device=device, dtype=dtype))
        self.variance_logit = nn.Parameter(torch.empty((), device=device, dtype=dtype))
        for name in ("running_mean", "running_var"):
            self.register_buffer(name, torch.empty(self.channels, device=device, dtype=dtype))
        self.register_buffer("num_batches_tracked", torch.zeros((), dtype=torch.int64, device=device))

    def reset_parameters(self) -> None:
        """Equal shares, averages as torch's batch norm has them."""
        super().reset_parameters()
        for value in (self.mean_logit, self.variance_logit, self.running_mean, self.num_batches_tracked):
            nn.init.zeros_(value)
        nn.init.ones_(self.running_var)

    def forward(self, input: Tensor) -> Tensor:
        """Statistics are taken in float32 or better."""
        values = input if input.dtype == torch.float64 else input.float()
        positions = list(range(2, input.ndim))
        own_mean = values.mean(positions, keepdim=True)
        own_variance = (values - own_mean).square().mean(positions, keepdim=True)
        if self.training:
            # The spread within images and that between them: no difference of large squares.
            mean = own_mean.mean(0, keepdim=True)
            variance = (own_variance + (own_mean - mean).square()).mean(0, keepdim=True)
            self._track(mean, variance, input.numel() // self.channels)
        else:
            mean, variance = (per_channel(v.to(values.dtype), input) for v in (self.running_mean, self.running_var))
        mean = torch.lerp(mean.expand_as(own_mean), own_mean, self.mean_logit.to(values.dtype).sigmoid())
        variance = torch.lerp(
            variance.expand_as(own_mean), own_variance, self.variance_logit.to(values.dtype).sigmoid()
        )
        return self.rescale((values - mean) * (variance + self.eps).rsqrt()).to(input.dtype)

    def _track(self, mean: Tensor, variance: Tensor, count: int) -> None:
        """Move the averages as torch's batch norm does, the variance unbiased."""
        if count < 2:
            raise ValueError(f"expected more than 1 value per channel when training, got {count}; use a larger batch")
        with torch.no_grad():
            self.num_batches_tracked.add_(1)
            unbiased = variance.flatten() * (count / (count - 1))
            self.running_mean.lerp_(mean.flatten().to(self.running_mean.dtype), self.momentum)
            self.running_var.lerp_(unbiased.to(self.running_var.dtype), self.momentum)


@register_norm("mixed", per_image=True)
def mixed_norm(channels: int, positions: int, **settings: object) -> MixedNorm:
    """A `MixedNorm`, for any number of position axes but none."""
    return MixedNorm(channels, **settings)  # type: ignore[arg-type]
