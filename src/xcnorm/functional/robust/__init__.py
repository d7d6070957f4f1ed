"""Robust functions phi(z; c): what R-XCNorm does to a centred patch before it is correlated."""

from xcnorm.functional.robust.cauchy import cauchy
from xcnorm.functional.robust.function import (
    ROBUST_FUNCTIONS,
    InPlace,
    RobustFunction,
    register_robust_function,
    robust_function,
)
from xcnorm.functional.robust.huber import huber
from xcnorm.functional.robust.tukey import tukey
from xcnorm.functional.robust.welsch import welsch, welsch_influence, welsch_signed

__all__ = [
    "ROBUST_FUNCTIONS",
    "InPlace",
    "RobustFunction",
    "cauchy",
    "huber",
    "register_robust_function",
    "robust_function",
    "tukey",
    "welsch",
    "welsch_influence",
    "welsch_signed",
]
