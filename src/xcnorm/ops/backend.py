"""What a backend is, and all of them by priority."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from xcnorm.ops.spec import Correlation, Response, Spec


def _always() -> str | None:
    return None


def _everything(input: Tensor, correlation: Correlation) -> str | None:
    return None


class Costly(str):
    """Why a backend can't run a case, where the user should hear of it: she can do something, and the next is slow."""


@dataclass(frozen=True)
class Backend:
    """One way to compute a layer.

    Attributes:
        name: What ``XCNORM_BACKEND`` and ``backend=`` call it.
        summary: One line for ``xcnorm doctor``.
        priority: Among the backends that can, the highest runs.
        respond: From an input ``(N, C_in, *sizes)``, not padded yet, and raw filters ``(C_out, C_in / groups,
            *kernel)``, in the dtype of the statistics, to the layer's answer.
        unavailable: Why it can't run on this machine at all, or None.
        unsupported: Why it can't run this input and correlation, or None; a `Costly` reason is told in a warning.
    """

    name: str
    summary: str
    priority: int
    respond: Callable[[Tensor, Tensor, Spec], Response]
    unavailable: Callable[[], str | None] = _always
    unsupported: Callable[[Tensor, Correlation], str | None] = _everything


_backends: list[Backend] = []


def register_backend(backend: Backend) -> Backend:
    """Make a backend known to every layer.

    Raises:
        ValueError: The name is taken.
    """
    if backend.name in (known.name for known in _backends):
        raise ValueError(f"backend {backend.name!r} is registered already; choose another name")
    _backends.append(backend)
    _backends.sort(key=lambda known: -known.priority)
    return backend


def backends() -> tuple[Backend, ...]:
    """Every backend there is, the preferred one first."""
    return tuple(_backends)
