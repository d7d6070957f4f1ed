"""The stage that turns a similarity down where there is nothing to see: norm-based attention, and its module."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_BIAS = 2.0


def attention_mask(norm: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    r"""The mask ``m = psi(||z~||)`` of the norm-based attention: one convolution and a sigmoid.

    The paper leaves psi's size open: ours sees the 3-neighbourhood, padded by replication, and one map per group.

    Args:
        norm: ``(N, groups, *positions)``; layers pass the norm divided by ``sqrt(alpha)``, so that psi's weights
            mean the same in every layer.
        weight: ``(groups, 1, *kernel)`` with odd kernel sizes, one per position axis.
        bias: ``(groups,)``.

    Returns:
        ``m`` in ``(0, 1)``, same shape as ``norm``.

    Example:
        >>> attention_mask(torch.ones(1, 1, 4, 4), torch.zeros(1, 1, 3, 3), torch.zeros(1)).unique()
        tensor([0.5000])
    """
    groups = weight.shape[0]
    kernel = weight.shape[2:]
    if not kernel:
        return torch.sigmoid(norm * weight.view(-1) + bias)
    padding = [k // 2 for k in reversed(kernel) for _ in range(2)]
    convolve = (F.conv1d, F.conv2d, F.conv3d)[len(kernel) - 1]
    return torch.sigmoid(convolve(F.pad(norm, padding, mode="replicate"), weight, bias, groups=groups))


def masked_similarity(similarity: Tensor, norm: Tensor, mask: Tensor) -> Tensor:
    r"""Norm-based attention, eq. (mask): ``U3 = m U2 + (1 - m) U2 ||z~||``.

    Between the normalised output (m = 1) and the output without normalisation (m = 0, exactly so for tau = 1).
    The second part is not invariant to the input's gain.

    Args:
        similarity: ``U2``, ``(N, C, *positions)``.
        norm: ``||z~||``, ``(N, groups, *positions)``; the channels of a group are neighbours.
        mask: ``m``, same shape as ``norm``.

    Returns:
        ``(N, C, *positions)``.

    Example:
        >>> u, norm = torch.ones(1, 4, 1, 1), torch.full((1, 2, 1, 1), 3.0)
        >>> masked_similarity(u, norm, torch.tensor([1.0, 0.0]).view(1, 2, 1, 1)).flatten()
        tensor([1., 1., 3., 3.])
    """
    factor = _factor(norm, mask)
    return (similarity.unflatten(1, (factor.shape[1], -1)) * factor.unsqueeze(2)).flatten(1, 2)


def attention_factor(norm: Tensor, weight: Tensor, bias: Tensor, alpha: int) -> Tensor:
    """What norm-based attention multiplies the channels of a group by: `attention_mask` and `masked_similarity` in one.

    Args:
        norm: ``||z~||``, ``(N, groups, *positions)``.
        weight: Of psi.
        bias: Of psi.
        alpha: Values in a patch; psi looks at ``norm / sqrt(alpha)``, so that its weights mean the same in every layer.
    """
    return _factor(norm, attention_mask(norm / math.sqrt(alpha), weight, bias))


def _factor(norm: Tensor, mask: Tensor) -> Tensor:
    return mask + (1 - mask) * norm


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
        nn.init.constant_(self.bias, _BIAS)

    def forward(self, similarity: Tensor, norm: Tensor) -> Tensor:
        """``U2`` and ``||z~||`` to ``U3``."""
        weight, bias = self.weight.to(norm.dtype), self.bias.to(norm.dtype)
        mask = attention_mask(norm / math.sqrt(self.alpha), weight, bias)
        return masked_similarity(similarity, norm, mask)

    def extra_repr(self) -> str:
        """Arguments for ``repr``."""
        return f"groups={self.weight.shape[0]}, kernel={tuple(self.weight.shape[2:])}"
