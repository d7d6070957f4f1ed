"""The first stage after a similarity: what becomes of its sign."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from xcnorm.errors import unknown_name

Rectify = Literal["relu", "abs", "none"]


def rectify(similarity: Tensor, how: Rectify = "relu") -> Tensor:
    r"""The inner ``max[0, U]`` of eq. (sharpen), or an alternative to it.

    Args:
        similarity: Any shape.
        how: ``"relu"`` as printed; ``"abs"`` ignores polarity (a filter answers to its negative as well);
            ``"none"`` leaves it signed.

    Returns:
        Same shape.

    Raises:
        ValueError: ``how`` is unknown.

    Example:
        >>> import torch
        >>> rectify(torch.tensor([-0.5, 0.25]), "abs")
        tensor([0.5000, 0.2500])
    """
    if how == "relu":
        return similarity.relu()
    if how == "abs":
        return similarity.abs()
    if how == "none":
        return similarity
    raise ValueError(unknown_name("rectify", how, ("relu", "abs", "none")))
