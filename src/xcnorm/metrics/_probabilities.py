"""The check of probabilities, before anything is computed from them."""

from __future__ import annotations

import torch
from torch import Tensor

from xcnorm.errors import UserError

# Half precision rounds each probability by up to 1 part in 512 (bfloat16), and so their sum.
_TOLERANCE = 1e-2


def checked(probabilities: Tensor, name: str) -> Tensor:
    """The probabilities in float64 and in the computer's memory, so that every device gives the same scores.

    Args:
        probabilities: ``(N, C)``, each row not negative and with sum 1.
        name: What they are called in an error.

    Raises:
        UserError: They are not as described above.
    """
    if probabilities.ndim != 2 or 0 in probabilities.shape:
        raise UserError(f"{name} must have the shape (N, C), neither of them 0, not {tuple(probabilities.shape)}")
    rows = probabilities.to("cpu", torch.float64)
    good = (rows >= 0).all(1) & ((rows.sum(1) - 1).abs() <= _TOLERANCE)  # false for NaN, and for logits
    if not good.all():
        row = int(good.int().argmin())
        raise UserError(f"{name} must be probabilities that sum to 1, but row {row} is not; apply a softmax first")
    return rows
