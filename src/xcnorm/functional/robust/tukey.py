"""Tukey's biweight, a robust function in its influence form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from xcnorm.functional.robust.function import RobustFunction, register_robust_function

if TYPE_CHECKING:
    import triton.language as tl


def _shape(t: Tensor) -> Tensor:
    return t * (1 - t.square()).clamp_min(0).square()


def _slope(t: Tensor) -> Tensor:
    return (1 - t.square()).clamp_min(0) * (1 - 5 * t.square())


def _kernel(t, EXACT):
    square = t * t
    rest = tl.where(square <= 1, 1 - square, 0.0)
    return t * rest * rest, rest * (1 - 5 * square)


_TUKEY = register_robust_function(RobustFunction("tukey", _shape, _slope, kernel=_kernel, bounded=True))


def tukey(z: Tensor, c: Tensor | float) -> Tensor:
    r"""Tukey's biweight influence function ``z (1 - (z / c)^2)^2``, zero beyond ``c``; see `huber`.

    Args:
        z: Centred values, any shape.
        c: Scale, positive, broadcast against ``z``.

    Example:
        >>> import torch
        >>> tukey(torch.tensor([-0.5, 0.0, 3.0]), c=1.0)
        tensor([-0.2812,  0.0000,  0.0000])
    """
    return _TUKEY(z, c)
