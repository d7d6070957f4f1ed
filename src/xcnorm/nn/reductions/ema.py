"""The scale c as a moving average of the patches' deviation, as printed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from xcnorm.nn.reductions.reduction import RobustScale, register_reduction


@register_reduction("ema")
class MovingScale(RobustScale):
    """A moving average of the deviation of the training batches' patches."""

    running_c: Tensor

    def add_state(self, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        """One number. With one axis: torch's compiler loses updates of float64 buffers that have none."""
        self.register_buffer("running_c", torch.empty(1, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Set c to its initial value."""
        nn.init.constant_(self.running_c, self.c_init)

    def forward(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """The average so far."""
        # The clamp makes a copy: the buffer moves on in place while this value waits for its backward.
        return self.running_c[0].to(dtype).clamp_min(self.minimum)

    @property
    def average(self) -> Tensor | None:
        """The buffer, in training mode."""
        return self.running_c if self.training else None
