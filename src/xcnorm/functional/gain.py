"""The stage that multiplies every channel by a learnt number: the gradient scaling of the paper."""

from __future__ import annotations

from torch import Tensor


def gain(similarity: Tensor, factor: Tensor) -> Tensor:
    r"""Gradient scaling: ``U2 = A * U1`` with one learnable factor per channel.

    A channel norm that follows divides the factor out again (only its epsilon notices), so with
    ``gain="before_norm"``, the printed order, A acts only where the norm is off.

    Args:
        similarity: ``(N, C, *positions)``.
        factor: ``A``, ``(C,)``.

    Returns:
        Same shape.

    Example:
        >>> import torch
        >>> gain(torch.ones(1, 2, 1, 1), torch.tensor([2.0, 3.0])).flatten()
        tensor([2., 3.])
    """
    return similarity * factor.view(-1, *(1,) * (similarity.ndim - 2))


def initial_gain(alpha: int, tau: float) -> float:
    """The A with which what enters the channel norm has unit scale.

    Unrelated patches of ``alpha`` values have a similarity of deviation ``1 / sqrt(alpha)``.

    Example:
        >>> initial_gain(9, tau=1.0)
        3.0
    """
    return float(alpha ** (tau / 2))
