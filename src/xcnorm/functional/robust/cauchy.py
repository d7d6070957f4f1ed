"""Cauchy's robust function, in its influence form."""

from __future__ import annotations

from torch import Tensor

from xcnorm.functional.robust.function import RobustFunction, register_robust_function


def _slope(t: Tensor) -> Tensor:
    return (1 - t.square()) / (1 + t.square()).square()


def _kernel(t, EXACT):
    square = t * t
    fraction = 1 / (1 + square)
    return t * fraction, (1 - square) * fraction * fraction


_CAUCHY = register_robust_function(
    RobustFunction("cauchy", lambda t: t / (1 + t.square()), _slope, kernel=_kernel, bounded=True)
)


def cauchy(z: Tensor, c: Tensor | float) -> Tensor:
    r"""Cauchy's (Lorentzian) influence function ``z / (1 + (z / c)^2)``; see `huber` for why this form.

    Args:
        z: Centred values, any shape.
        c: Scale, positive, broadcast against ``z``.

    Example:
        >>> import torch
        >>> cauchy(torch.tensor([-1.0, 0.0, 3.0]), c=1.0)
        tensor([-0.5000,  0.0000,  0.3000])
    """
    return _CAUCHY(z, c)
