"""Angular functions: from the cosine of an angle to how much it counts, between -1 and 1."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

SHARPNESS = 0.3  # k of the sigmoid, as in the public code of both papers

_NEARLY_ONE = 1 - 1e-6  # at an angle of zero the slope of the angle is infinite


def _angle_from_right(cosine: Tensor) -> Tensor:
    """``pi / 2 - angle``."""
    return cosine.clamp(-_NEARLY_ONE, _NEARLY_ONE).asin()


def linear(cosine: Tensor) -> Tensor:
    """``1 - 2 angle / pi``."""
    return _angle_from_right(cosine) * (2 / math.pi)


def sigmoid(cosine: Tensor) -> Tensor:
    """A sigmoid of the angle that goes from 1 to -1.

    Printed as ``(1 + e) / (1 - e) * (1 - exp(angle / k - pi / 2k)) / (1 + exp(angle / k - pi / 2k))`` with
    ``e = exp(-pi / 2k)``, which is a quotient of hyperbolic tangents.
    """
    return (_angle_from_right(cosine) / (2 * SHARPNESS)).tanh() / math.tanh(math.pi / (4 * SHARPNESS))


def square(cosine: Tensor) -> Tensor:
    """The squared cosine with the sign kept."""
    return cosine * cosine.abs()


ANGULAR: dict[str, Callable[[Tensor], Tensor]] = {
    "cosine": lambda cosine: cosine,
    "linear": linear,
    "sigmoid": sigmoid,
    "square": square,
}
"""Every angular function by name."""
