"""Checks, random numbers from the CPU, and results in the images' own type, for all transforms."""

from __future__ import annotations

import torch
from torch import Tensor

from xcnorm.errors import UserError


def check(images: Tensor, colour: bool = False) -> None:
    if images.ndim != 4 or 0 in images.shape[1:]:
        raise UserError(f"images must have the shape (N, C, H, W), not {tuple(images.shape)}")
    if images.dtype != torch.uint8 and not images.is_floating_point():
        raise UserError(f"images must be uint8 or floating point, not {images.dtype}")
    if colour and images.shape[1] not in (1, 3):
        raise UserError(f"images must have one channel or three, not {images.shape[1]}")


def precise(images: Tensor) -> Tensor:
    """At least single precision."""
    return images if images.dtype == torch.float64 else images.float()


def like(images: Tensor, values: Tensor) -> Tensor:
    """Back to the dtype of the images; to 8 bits by rounding."""
    return (values.round() if images.dtype == torch.uint8 else values).to(images.dtype)


def on_cpu(generator: torch.Generator) -> torch.Generator:
    if generator.device.type != "cpu":
        raise UserError(f"the generator must be on the CPU, not on {generator.device}; the images may be anywhere")
    return generator


def uniform(generator: torch.Generator, low: float, high: float, *shape: int) -> Tensor:
    return low + (high - low) * torch.rand(*shape, generator=on_cpu(generator), dtype=torch.float64)


def coins(images: Tensor, generator: torch.Generator, p: float) -> Tensor:
    """``(N, 1, 1, 1)``, true with probability `p`."""
    if not 0 <= p <= 1:
        raise UserError(f"p must be from 0 to 1, not {p}")
    return (uniform(generator, 0, 1, len(images), 1, 1, 1) < p).to(images.device)
