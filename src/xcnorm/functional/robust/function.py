"""What a robust function phi(z; c) is, and where they are all known by name.

All of them have the form ``phi(z; c) = c * h(z / c)`` with a shape ``h`` of one argument, so a robust function
is fully described by ``h`` and its slope ``h'``; the derivatives of phi follow as ``dphi/dz = h'`` and
``dphi/dc = h - t h'`` with ``t = z / c``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from xcnorm.registry import Registry


@dataclass(frozen=True)
class RobustFunction:
    """A robust function ``phi(z; c) = c * h(z / c)``, given by its shape and the slope of the shape.

    Attributes:
        name: Its name in options, configurations and reports.
        shape: ``h``, applied elementwise.
        slope: ``h'``, applied elementwise; itself differentiable by autograd.
        kernel: Both for GPUs, in Triton's language: from a tile of ``t`` and a constant ``EXACT`` to tiles of ``h`` and
            ``h'``, without annotations, which Triton would read. Unless ``EXACT``, the results are rounded to 11 bits
            afterwards. None: a GPU runs torch's operators.
        bounded: Whether ``|h| <= 1``: kernels may then keep ``h`` in float16.
        in_place: Both for CPUs, without new tensors; None where that saves no time.
    """

    name: str
    shape: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]
    kernel: Callable[..., Any] | None = None
    bounded: bool = False
    in_place: InPlace | None = None

    def __call__(self, z: Tensor, c: Tensor | float) -> Tensor:
        """Apply phi elementwise; ``c`` broadcasts against ``z``."""
        return c * self.shape(z / c)


@dataclass(frozen=True)
class InPlace:
    """A robust function that writes into buffers.

    Attributes:
        shape: Takes ``t``, where to write ``h(t)``, and a buffer for what the slope needs, which may be the same.
        slope: Takes ``t``, ``h(t)`` and that buffer, and turns the buffer into ``h'(t)``.
    """

    shape: Callable[[Tensor, Tensor, Tensor], object]
    slope: Callable[[Tensor, Tensor, Tensor], object]


ROBUST_FUNCTIONS: Registry[RobustFunction] = Registry("robust function", "xcnorm.functional.robust")
"""Every robust function by name."""


def register_robust_function(function: RobustFunction) -> RobustFunction:
    """Make a robust function known by its name, as ``robust=`` of a layer takes it."""
    return ROBUST_FUNCTIONS.register(function.name, function)


def robust_function(name: str) -> RobustFunction:
    """Look a robust function up by name.

    Raises:
        UserError: The name is unknown; the message lists the known ones.

    Example:
        >>> import torch
        >>> robust_function("huber")(torch.tensor([-3.0, 0.5]), c=1.0)
        tensor([-1.0000,  0.5000])
    """
    return ROBUST_FUNCTIONS[name]
