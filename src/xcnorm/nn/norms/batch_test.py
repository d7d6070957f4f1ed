"""BN-Test: a batch norm that takes the statistics of the test batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from xcnorm.nn.norms.norm import register_norm


class BatchTestNorm(_BatchNorm):
    """Batch norm that uses the statistics of the batch it is given in evaluation too (Nado et al., 2020).

    What it answers to an image then depends on the other images of its batch. It trains as a batch norm does, moving
    averages included: these take the place of statistics where a batch has a single value per channel, which has none.

    Takes the arguments of `torch.nn.BatchNorm2d`.

    Shapes:
        ``(N, C, *positions)`` to the same shape.

    Example:
        >>> norm = BatchTestNorm(1).eval()
        >>> norm(torch.tensor([[[7.0, 9.0]]])).round(decimals=3)
        tensor([[[-1.,  1.]]], grad_fn=...)
    """

    def forward(self, input: Tensor) -> Tensor:
        """Normalise every channel by the batch."""
        if self.training or input.numel() < 2 * input.shape[1]:
            return super().forward(input)
        self._check_input_dim(input)
        enabled = torch.backends.cudnn.enabled
        return torch.batch_norm(input, self.weight, self.bias, None, None, True, 0.0, self.eps, enabled)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2 or input.shape[1] != self.num_features:
            raise ValueError(
                f"input must have shape (N, {self.num_features}, then any positions), got {tuple(input.shape)}"
            )


@register_norm("batch_test")
def batch_test_norm(channels: int, positions: int, **settings: Any) -> BatchTestNorm:
    """A `BatchTestNorm`, for any number of position axes."""
    return BatchTestNorm(channels, **settings)
