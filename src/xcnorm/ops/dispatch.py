"""Backends: what one is, which one runs, and why.

The highest priority that is available and supports the case runs, unless ``XCNORM_BACKEND`` or the layer's ``backend``
names one.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from xcnorm.errors import UserError, unknown_name
from xcnorm.ops.spec import Correlation, Response, Spec

VARIABLE = "XCNORM_BACKEND"

_log = logging.getLogger(__name__)
_told: set[str] = set()


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


def choose(input: Tensor, correlation: Correlation, backend: str | None = None) -> tuple[Backend, str]:
    """The backend that runs this case, and the reason in words.

    Raises:
        UserError: The backend asked for is unknown, or cannot run this case; a ValueError.
    """
    source, name = ("backend", backend) if backend is not None else (VARIABLE, os.environ.get(VARIABLE) or None)
    if name is not None:
        for candidate in backends():
            if candidate.name == name:
                if (why_not := refusal(candidate, input, correlation)) is not None:
                    raise UserError(f"{source}={name!r} cannot run this layer: {why_not}; unset it to fall back")
                return candidate, f"asked for by {source}"
        raise UserError(unknown_name(source, name, [b.name for b in backends()]))
    passed_over: list[str] = []
    for candidate in backends():
        why_not = refusal(candidate, input, correlation)
        if why_not is None:
            reason = "; ".join([f"highest priority of those that can: {candidate.summary}", *passed_over])
            if passed_over and _is_news(f"{candidate.name} runs: {reason}"):
                _log.debug(f"{candidate.name} runs: {reason}")
            return candidate, reason
        passed_over.append(f"not {candidate.name}: {why_not}")
        if isinstance(why_not, Costly) and candidate.unavailable() is None and _is_news(why_not):
            warnings.warn(why_not, stacklevel=2)
    raise UserError("no backend can run this layer: " + "; ".join(passed_over))


def refusal(candidate: Backend, input: Tensor, correlation: Correlation) -> str | None:
    """Why a backend cannot run a case, or None."""
    return candidate.unsupported(input, correlation) or candidate.unavailable()


def _is_news(message: str) -> bool:
    """Layers ask anew on every call; the answer is news once. A compiler is told nothing."""
    if torch.compiler.is_compiling() or message in _told:
        return False
    _told.add(message)
    return True


@dataclass(frozen=True)
class Explanation:
    """Which backend runs a layer, and why; ``print`` it."""

    backend: str
    reason: str

    def __str__(self) -> str:
        return f"{self.backend} ({self.reason})"


def explain(layer: Any, input: Tensor) -> Explanation:
    """Say which backend would run ``layer`` on ``input``, and why, without running it.

    Args:
        layer: An XCNorm or R-XCNorm layer.
        input: An input for it.

    Example:
        >>> import torch, xcnorm
        >>> explain(xcnorm.XCNormConv2d(3, 8, 3), torch.zeros(1, 3, 8, 8)).backend
        'cpu'
    """
    if not hasattr(layer, "correlation"):
        raise TypeError(f"layer must be an XCNorm layer, got {type(layer).__name__}")
    chosen, reason = choose(input, layer.correlation, layer.backend)
    return Explanation(chosen.name, reason)
