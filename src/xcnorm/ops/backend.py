"""What a backend is: a file of this folder with a ``BACKEND`` in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from xcnorm.ops.correlation import Correlation, Similarity

Run = Callable[[Tensor, Tensor, Tensor | None, Correlation, torch.dtype], Similarity]


def _always() -> str | None:
    return None


def _everything(input: Tensor, spec: Correlation) -> str | None:
    return None


@dataclass(frozen=True)
class Backend:
    """One way to compute a `Correlation`.

    Attributes:
        name: What ``XCNORM_BACKEND`` and ``backend=`` call it.
        summary: One line for ``xcnorm doctor``.
        priority: Among the backends that can, the highest runs.
        similarity: The implementation; see `xcnorm.ops.similarity` for its arguments.
        unavailable: Why it can't run on this machine at all, or None.
        unsupported: Why it can't run this input and correlation, or None.
    """

    name: str
    summary: str
    priority: int
    similarity: Run
    unavailable: Callable[[], str | None] = _always
    unsupported: Callable[[Tensor, Correlation], str | None] = _everything
