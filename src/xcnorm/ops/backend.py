"""What a backend is: a file of this folder with a ``BACKEND`` in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from xcnorm.ops.correlation import Correlation, Similarity
from xcnorm.ops.finish import Finish, Response

Run = Callable[[Tensor, Tensor, Tensor | None, Correlation, torch.dtype], Similarity]
Respond = Callable[[Tensor, Tensor, Tensor | None, Correlation, Finish, torch.dtype], Response]


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
        respond: The same with the stages that follow, in one go; None if it has no such thing.
        unavailable: Why it can't run on this machine at all, or None.
        unsupported: Why it can't run this input and correlation, or None.
    """

    name: str
    summary: str
    priority: int
    similarity: Run
    respond: Respond | None = None
    unavailable: Callable[[], str | None] = _always
    unsupported: Callable[[Tensor, Correlation], str | None] = _everything
