"""Welsch's robust function: as printed, with the sign kept, and in its influence form.

``1 - exp(-t^2 / 2)`` is computed precisely where it is small: there training starts, with c much larger than z.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from xcnorm.functional.robust.function import InPlace, RobustFunction, register_robust_function

if TYPE_CHECKING:
    import triton.language as tl

_LOG2_BELL = -0.5 / math.log(2)


def _bell(t: Tensor) -> Tensor:
    return torch.exp(-0.5 * t.square())


def _shape(t: Tensor) -> Tensor:
    return -torch.expm1(-0.5 * t.square())


def _shape_in_place(t: Tensor, out: Tensor, work: Tensor) -> None:
    torch.addcmul(t.new_zeros(()), t, t, value=-0.5, out=out).expm1_().neg_()


def _slope_in_place(t: Tensor, h: Tensor, work: Tensor) -> None:
    torch.addcmul(t, t, h, value=-1, out=work)


def _influence_in_place(t: Tensor, out: Tensor, work: Tensor) -> None:
    # On a CPU a power of two takes a third of the time of an exponential.
    torch.addcmul(t.new_zeros(()), t, t, value=_LOG2_BELL, out=work).exp2_()
    torch.mul(work, t, out=out)


def _influence_slope_in_place(t: Tensor, h: Tensor, work: Tensor) -> None:
    work.addcmul_(t, h, value=-1)


def _kernel(t, EXACT):
    square = t * t
    bell = tl.exp2(square * -0.7213475204444817)  # -1 / (2 log 2): a power of 2 is what GPUs have
    if EXACT:
        y = 0.5 * square
        near = y < 0.1
        series = y * (1 - y / 2 * (1 - y / 3 * (1 - y / 4 * (1 - y / 5))))
    else:  # in as few instructions as there are
        near = square < 0.03125
        series = square * (0.5 - 0.125 * square)
    return tl.where(near, series, 1 - bell), t * bell


def _signed_kernel(t, EXACT):
    square = t * t
    bell = tl.exp2(square * -0.7213475204444817)
    if EXACT:
        y = 0.5 * square
        near = y < 0.1
        series = y * (1 - y / 2 * (1 - y / 3 * (1 - y / 4 * (1 - y / 5))))
    else:
        near = square < 0.03125
        series = square * (0.5 - 0.125 * square)
    h = tl.where(near, series, 1 - bell)
    return tl.where(t < 0, -h, h), tl.abs(t) * bell


def _influence_kernel(t, EXACT):
    square = t * t
    bell = tl.exp2(square * -0.7213475204444817)
    return t * bell, bell - square * bell


_WELSCH = register_robust_function(
    RobustFunction(
        "welsch",
        _shape,
        lambda t: t * _bell(t),
        kernel=_kernel,
        bounded=True,
        in_place=InPlace(_shape_in_place, _slope_in_place),
    )
)
_WELSCH_SIGNED = register_robust_function(
    RobustFunction(
        "welsch_signed",
        lambda t: t.sign() * _shape(t),
        lambda t: t.abs() * _bell(t),
        kernel=_signed_kernel,
        bounded=True,
    )
)
_WELSCH_INFLUENCE = register_robust_function(
    RobustFunction(
        "welsch_influence",
        lambda t: t * _bell(t),
        lambda t: (1 - t.square()) * _bell(t),
        kernel=_influence_kernel,
        bounded=True,
        in_place=InPlace(_influence_in_place, _influence_slope_in_place),
    )
)


def welsch(z: Tensor, c: Tensor | float) -> Tensor:
    r"""Welsch function exactly as printed: ``phi(z) = c [1 - exp(-z^2 / (2 c^2))]``.

    The function is *even*: the sign of the centred patch is lost, and for large ``c`` it tends to
    ``z^2 / (2c)``, not to ``z``. R-XCNorm with it therefore ignores polarity and does not start from XCNorm.

    Args:
        z: Centred values, any shape.
        c: Scale, positive, broadcast against ``z``.

    Returns:
        Same shape as ``z``; values in ``[0, c]``.

    Example:
        >>> welsch(torch.tensor([-1.0, 0.0, 1.0, 9.0]), c=1.0)
        tensor([0.3935, 0.0000, 0.3935, 1.0000])
    """
    return _WELSCH(z, c)


def welsch_signed(z: Tensor, c: Tensor | float) -> Tensor:
    r"""Welsch function with the sign kept: ``sign(z) c [1 - exp(-z^2 / (2 c^2))]``.

    Departs from the print so that a bright and a dark stroke stay different. Values in ``[-c, c]``.

    Args:
        z: Centred values, any shape.
        c: Scale, positive, broadcast against ``z``.

    Example:
        >>> welsch_signed(torch.tensor([-1.0, 0.0, 1.0, 9.0]), c=1.0)
        tensor([-0.3935,  0.0000,  0.3935,  1.0000])
    """
    return _WELSCH_SIGNED(z, c)


def welsch_influence(z: Tensor, c: Tensor | float) -> Tensor:
    r"""Influence form of Welsch: ``z exp(-z^2 / (2 c^2))``, the derivative of the Welsch loss (times c).

    Departs from the print: it tends to ``z`` for large ``c`` (so R-XCNorm starts as XCNorm, as the paper's
    "large initial value" intends) and back to zero for outliers.

    Args:
        z: Centred values, any shape.
        c: Scale, positive, broadcast against ``z``.

    Example:
        >>> welsch_influence(torch.tensor([-1.0, 0.0, 1.0, 3.0]), c=1.0)
        tensor([-0.6065,  0.0000,  0.6065,  0.0333])
    """
    return _WELSCH_INFLUENCE(z, c)
