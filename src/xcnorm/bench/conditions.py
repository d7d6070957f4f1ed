"""Conditions of a measurement: device, precision, threads and memory layout, the same for all that is compared."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

PRECISIONS = {"cpu": ("fp32",), "cuda": ("bf16", "tf32")}
"""``bf16`` is autocast with an input that is in bfloat16 already, as inside a network; ``tf32`` are float32 tensors."""

Module = TypeVar("Module", bound=nn.Module)

_CACHE = 2**27  # bytes; more than any device's cache


@dataclass(frozen=True)
class Conditions:
    """What a measurement is made under.

    Args:
        device: ``"cpu"`` or ``"cuda"``.
        precision: One of `PRECISIONS`.
        threads: Of a CPU.
        channels_last: Whether channels come last in memory on a CPU; on a GPU, whose matrix units want it, they do.
    """

    device: str
    precision: str
    threads: int = 1
    channels_last: bool = False

    @property
    def dtype(self) -> torch.dtype:
        """Of activations."""
        return torch.bfloat16 if self.precision == "bf16" else torch.float32

    @property
    def layout(self) -> torch.memory_format:
        """Of images and filters in memory."""
        last = self.channels_last or self.device == "cuda"
        return torch.channels_last if last else torch.contiguous_format

    def autocast(self) -> torch.autocast:
        """What a forward runs in."""
        return torch.autocast(self.device, torch.bfloat16, enabled=self.precision == "bf16")

    def place(self, module: Module) -> Module:
        """Move a module to the device, in its layout."""
        return module.to(self.device).to(memory_format=self.layout)  # type: ignore[call-overload]  # torch forgot it

    def input(self, size: tuple[int, ...], *, gradient: bool) -> Tensor:
        """A batch of the given size, ``(N, C, H, W)``, of which a step may want the gradient."""
        values = torch.randn(size, device=self.device)
        return values.to(self.dtype, memory_format=self.layout).requires_grad_(gradient)

    def inputs(self, size: tuple[int, ...], *, gradient: bool) -> list[Tensor]:
        """Batches to go round in: as many as it takes for one to have left the cache when it is due again, up to 8."""
        first = self.input(size, gradient=gradient)
        count = min(8, max(2, math.ceil(_CACHE / first.nbytes)))
        return [first, *(self.input(size, gradient=gradient) for _ in range(count - 1))]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Torch as fast as it goes: these threads, TF32 products, and cuDNN looks for its best algorithms."""
        threads, cudnn, matmul = torch.get_num_threads(), torch.backends.cudnn, torch.backends.cuda.matmul
        before = cudnn.benchmark, cudnn.allow_tf32, matmul.allow_tf32
        torch.set_num_threads(self.threads)
        cudnn.benchmark = cudnn.allow_tf32 = matmul.allow_tf32 = True
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            cudnn.benchmark, cudnn.allow_tf32, matmul.allow_tf32 = before


@contextmanager
def without_search() -> Iterator[None]:
    """CuDNN takes the algorithm it expects to be the best. Not for shapes to be timed: it keeps what it took first."""
    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, False
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before
