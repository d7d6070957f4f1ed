r"""Robust functions phi(z; c): what R-XCNorm does to a centred patch before it is correlated.

All of them have the form ``phi(z; c) = c * h(z / c)`` with a shape ``h`` of one argument, so a robust function
is fully described by ``h`` and its slope ``h'``; the derivatives of phi follow as ``dphi/dz = h'`` and
``dphi/dc = h - t h'`` with ``t = z / c``. A new robust function is one entry of `ROBUST_FUNCTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from xcnorm.errors import unknown_name

Shape = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class RobustFunction:
    """A robust function ``phi(z; c) = c * h(z / c)``, given by its shape and the slope of the shape.

    Attributes:
        name: Its name in options, configurations and reports.
        shape: ``h``, applied elementwise.
        slope: ``h'``, applied elementwise; itself differentiable by autograd.
    """

    name: str
    shape: Shape
    slope: Shape

    def __call__(self, z: Tensor, c: Tensor | float) -> Tensor:
        """Apply phi elementwise; ``c`` broadcasts against ``z``."""
        return c * self.shape(z / c)


def _bell(t: Tensor) -> Tensor:
    return torch.exp(-0.5 * t.square())


def _welsch(t: Tensor) -> Tensor:
    # expm1 keeps full precision where c is much larger than z, which is where training starts.
    return -torch.expm1(-0.5 * t.square())


def _inside(t: Tensor) -> Tensor:
    return (t.abs() <= 1).to(t.dtype)


ROBUST_FUNCTIONS: dict[str, RobustFunction] = {
    function.name: function
    for function in (
        RobustFunction("welsch", _welsch, lambda t: t * _bell(t)),
        RobustFunction("welsch_signed", lambda t: t.sign() * _welsch(t), lambda t: t.abs() * _bell(t)),
        RobustFunction("welsch_influence", lambda t: t * _bell(t), lambda t: (1 - t.square()) * _bell(t)),
        RobustFunction("huber", lambda t: t.clamp(-1, 1), _inside),
        RobustFunction(
            "cauchy", lambda t: t / (1 + t.square()), lambda t: (1 - t.square()) / (1 + t.square()).square()
        ),
        RobustFunction(
            "tukey",
            lambda t: t * (1 - t.square()).square() * _inside(t),
            lambda t: (1 - t.square()) * (1 - 5 * t.square()) * _inside(t),
        ),
    )
}
"""Every robust function by name."""


def robust_function(name: str) -> RobustFunction:
    """Look a robust function up by name.

    Raises:
        ValueError: The name is unknown; the message lists the known ones.

    Example:
        >>> robust_function("huber")(torch.tensor([-3.0, 0.5]), c=1.0)
        tensor([-1.0000,  0.5000])
    """
    if name not in ROBUST_FUNCTIONS:
        raise ValueError(unknown_name("robust function", name, ROBUST_FUNCTIONS))
    return ROBUST_FUNCTIONS[name]


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
    return ROBUST_FUNCTIONS["welsch"](z, c)


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
    return ROBUST_FUNCTIONS["welsch_signed"](z, c)


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
    return ROBUST_FUNCTIONS["welsch_influence"](z, c)


def huber(z: Tensor, c: Tensor | float) -> Tensor:
    r"""Huber's influence function ``clamp(z, -c, c)``.

    The paper names Huber, Cauchy and Tukey without printing them. We take the influence forms: they keep the
    sign and tend to ``z`` for large ``c``, where the losses would be even like the printed Welsch.

    Args:
        z: Centred values, any shape.
        c: Scale, positive, broadcast against ``z``.

    Example:
        >>> huber(torch.tensor([-9.0, 0.5, 2.0]), c=1.0)
        tensor([-1.0000,  0.5000,  1.0000])
    """
    return ROBUST_FUNCTIONS["huber"](z, c)


def cauchy(z: Tensor, c: Tensor | float) -> Tensor:
    r"""Cauchy's (Lorentzian) influence function ``z / (1 + (z / c)^2)``; see `huber` for why this form.

    Args:
        z: Centred values, any shape.
        c: Scale, positive, broadcast against ``z``.

    Example:
        >>> cauchy(torch.tensor([-1.0, 0.0, 3.0]), c=1.0)
        tensor([-0.5000,  0.0000,  0.3000])
    """
    return ROBUST_FUNCTIONS["cauchy"](z, c)


def tukey(z: Tensor, c: Tensor | float) -> Tensor:
    r"""Tukey's biweight influence function ``z (1 - (z / c)^2)^2``, zero beyond ``c``; see `huber`.

    Args:
        z: Centred values, any shape.
        c: Scale, positive, broadcast against ``z``.

    Example:
        >>> tukey(torch.tensor([-0.5, 0.0, 3.0]), c=1.0)
        tensor([-0.2812,  0.0000,  0.0000])
    """
    return ROBUST_FUNCTIONS["tukey"](z, c)
