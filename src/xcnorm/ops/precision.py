"""Which precision a computation runs in, under autocast and in float16's narrow range."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """The dtype autocast asks for on a device; None where it is off."""
    # Torch refuses the question for the meta device.
    if device.type == "meta" or not torch.is_autocast_enabled(device.type):
        return None
    return torch.get_autocast_dtype(device.type)


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """Autocast off, for code that chooses its own dtypes: a backward may be called inside autocast as well."""
    return nullcontext() if autocast_dtype(device) is None else torch.autocast(device.type, enabled=False)


def in_range(values: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor | float]:
    """Values in ``dtype``, and the factor that was taken out of them so that float16 can hold them."""
    if dtype != torch.float16:
        return values.to(dtype), 1.0
    if values.numel() == 0:
        return values.to(dtype), 1.0
    unit = values.detach().abs().amax().clamp_min(torch.finfo(torch.float32).tiny)
    return (values / unit).to(dtype), unit
