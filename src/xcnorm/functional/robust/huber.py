"""Huber's robust function, in its influence form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from xcnorm.functional.robust.function import RobustFunction, register_robust_function

if TYPE_CHECKING:
    import triton.language as tl


def _inside(t: Tensor) -> Tensor:
    return (t.abs() <= 1).to(t.dtype)


def _kernel(t, EXACT):
    return tl.minimum(tl.maximum(t, -1.0), 1.0), tl.where(t * t <= 1, 1.0, 0.0)


_HUBER = register_robust_function(
    RobustFunction("huber", lambda t: t.clamp(-1, 1), _inside, kernel=_kernel, bounded=True)
)


def huber(z: Tensor, c: Tensor | float) -> Tensor:
    r"""Huber's influence function ``clamp(z, -c, c)``.

    The paper names Huber, Cauchy and Tukey without printing them. We take the influence forms: they keep the
    sign and tend to ``z`` for large ``c``, where the losses would be even like the printed Welsch.

    Args:
        z: Centred values, any shape.
        c: Scale, positive, broadcast against ``z``.

    Example:
        >>> import torch
        >>> huber(torch.tensor([-9.0, 0.5, 2.0]), c=1.0)
        tensor([-1.0000,  0.5000,  1.0000])
    """
    return _HUBER(z, c)
