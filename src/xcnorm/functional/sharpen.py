"""The stage that sharpens a similarity: a power, and the number its exponent is learnt as."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# Below this a similarity counts as zero: the power's slope tau x^(tau - 1) grows without bound towards 0 for
# tau < 1, and x^tau log(x), the slope in tau, is 0 * inf there.
SHARPEN_FLOOR = 1e-6

TAU_MINIMUM = 0.5
"""Of the exponent: its slope stays usable there."""


def sharpen(similarity: Tensor, tau: Tensor | float) -> Tensor:
    r"""Sharpening, the power of eq. (sharpen): ``U1 = U^tau`` of a rectified similarity.

    Departures: values below 1e-6 become exactly 0 (see the constant above), and a negative value, which only
    ``rectify="none"`` lets through, keeps its sign: ``sign(U) |U|^tau``.

    Args:
        similarity: ``(N, C, *positions)`` or any shape ``tau`` broadcasts to.
        tau: Exponent, positive; a number or a tensor.

    Returns:
        Same shape.

    Example:
        >>> sharpen(torch.tensor([0.0, 0.5, 1.0]), 2.0)
        tensor([0.0000, 0.2500, 1.0000])
    """
    sharpened: Tensor = _Sharpen.apply(similarity, tau)  # type: ignore[no-untyped-call]
    return sharpened


def exponent(raw: Tensor) -> Tensor:
    """The exponent tau, kept above `TAU_MINIMUM`, from the parameter it is learnt as.

    Example:
        >>> exponent(torch.tensor(raw_exponent(1.5)))
        tensor(1.5000)
    """
    return TAU_MINIMUM + F.softplus(raw)


def raw_exponent(tau: float) -> float:
    """The parameter from which `exponent` makes ``tau``."""
    return inverse_softplus(tau - TAU_MINIMUM)


def inverse_softplus(value: float) -> float:
    """The number whose softplus is ``value``, for positive values."""
    return value + math.log(-math.expm1(-value))


class _Sharpen(torch.autograd.Function):
    """``sign(u) |u|^tau`` as a power of two, which on a CPU takes half the time of any other."""

    generate_vmap_rule = True

    @staticmethod
    def forward(similarity: Tensor, tau: Tensor | float) -> Tensor:
        """The logarithm of a dead value becomes minus infinity, and two to that is zero."""
        # Not zero before the logarithm: on a CPU that takes ten times as long.
        logarithm = similarity.abs().clamp_min(SHARPEN_FLOOR / 2).log2()
        return (F.threshold(logarithm, math.log2(SHARPEN_FLOOR), -math.inf) * tau).exp2().copysign(similarity)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keep input and output; the logarithm is taken again."""
        similarity, tau = inputs
        ctx.tau = None if isinstance(tau, Tensor) else tau
        ctx.save_for_backward(similarity, output, *([tau] if isinstance(tau, Tensor) else []))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor | None]:
        """Slopes ``tau |y| / |u|`` and ``y log |u|``; both are zero where the value is dead, because ``y`` is."""
        similarity, output, *tensors = ctx.saved_tensors
        tau = tensors[0] if tensors else ctx.tau
        magnitude = similarity.abs().clamp_min(SHARPEN_FLOOR)
        grad_tau = None
        if ctx.needs_input_grad[1]:
            grad_tau = (grads[0] * output * magnitude.log()).sum_to_size(tau.shape)
        return grads[0] * (output.abs() / magnitude) * tau, grad_tau
