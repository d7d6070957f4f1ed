"""Operations on pictures as Pillow has them, on batches, each picture with an amount of its own.

Pictures are ``(N, C, H, W)`` with values from 0 to 1, amounts ``(N,)``. Pillow rounds to 8 bits after each operation;
these do only where an operation is about levels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from xcnorm.data.colour import grey_level
from xcnorm.methods.warping import affine_places, sampled

Operation = Callable[[Tensor, Tensor], Tensor]
"""From pictures and amounts to pictures."""


def autocontrast(pictures: Tensor, _: Tensor) -> Tensor:
    """Stretch each channel to the whole range."""
    low, high = pictures.amin((2, 3), keepdim=True), pictures.amax((2, 3), keepdim=True)
    return torch.where(high > low, (pictures - low) / (high - low).clamp_min(1e-12), pictures)


def equalize(pictures: Tensor, _: Tensor) -> Tensor:
    """Make all 256 levels of each channel about equally frequent."""
    levels = _levels(pictures).flatten(2).long()
    counts = pictures.new_zeros(*levels.shape[:2], 256).scatter_add_(
        2, levels, torch.ones_like(levels, dtype=pictures.dtype)
    )
    darker = counts.cumsum(2) - counts
    step = (darker.gather(2, levels.amax(2, keepdim=True)) / 255).floor()  # all but those of the lightest level
    table = (((step / 2).floor() + darker) / step.clamp_min(1)).floor().clamp_max(255)
    return torch.where(step > 0, table.gather(2, levels), levels).view_as(pictures) / 255


def posterize(pictures: Tensor, bits: Tensor) -> Tensor:
    """Keep the highest bits of each level."""
    width = 2 ** (8 - _aligned(bits))
    return (_levels(pictures) / width).floor() * width / 255


def solarize(pictures: Tensor, threshold: Tensor) -> Tensor:
    """Invert levels from a threshold on, of 256."""
    return torch.where(_levels(pictures) < _aligned(threshold), pictures, 1 - pictures)


def brightness(pictures: Tensor, factor: Tensor) -> Tensor:
    """Away from black."""
    return (pictures * _aligned(factor)).clamp(0, 1)


def contrast(pictures: Tensor, factor: Tensor) -> Tensor:
    """Away from the mean grey level."""
    return torch.lerp(_grey(pictures).mean((1, 2, 3), keepdim=True), pictures, _aligned(factor)).clamp(0, 1)


def saturation(pictures: Tensor, factor: Tensor) -> Tensor:
    """Away from grey."""
    return torch.lerp(_grey(pictures), pictures, _aligned(factor)).clamp(0, 1)


def sharpness(pictures: Tensor, factor: Tensor) -> Tensor:
    """Away from a smoothed picture; the outermost pixels stay."""
    channels = pictures.shape[1]
    kernel = pictures.new_ones(3, 3)
    kernel[1, 1] = 5
    inner = F.conv2d(pictures, (kernel / 13).expand(channels, 1, 3, 3), groups=channels)
    smooth = pictures.clone()
    smooth[..., 1:-1, 1:-1] = inner
    return torch.lerp(smooth, pictures, _aligned(factor)).clamp(0, 1)


def rotate(pictures: Tensor, degrees: Tensor) -> Tensor:
    """Turn about the centre, counterclockwise."""
    angle = degrees.deg2rad()
    zero = torch.zeros_like(angle)
    return moved(pictures, angle.cos(), -angle.sin(), zero, angle.sin(), angle.cos(), zero)


def shear_x(pictures: Tensor, amount: Tensor) -> Tensor:
    """Shift each row by so much of its distance from the top, to the left."""
    one, zero = torch.ones_like(amount), torch.zeros_like(amount)
    return moved(pictures, one, amount, amount * pictures.shape[2] / 2, zero, one, zero)


def shear_y(pictures: Tensor, amount: Tensor) -> Tensor:
    """Shift each column by so much of its distance from the left, upwards."""
    one, zero = torch.ones_like(amount), torch.zeros_like(amount)
    return moved(pictures, one, zero, zero, amount, one, amount * pictures.shape[3] / 2)


def translate_x(pictures: Tensor, pixels: Tensor) -> Tensor:
    """Shift to the left."""
    one, zero = torch.ones_like(pixels), torch.zeros_like(pixels)
    return moved(pictures, one, zero, pixels, zero, one, zero)


def translate_y(pictures: Tensor, pixels: Tensor) -> Tensor:
    """Shift upwards."""
    one, zero = torch.ones_like(pixels), torch.zeros_like(pixels)
    return moved(pictures, one, zero, zero, zero, one, pixels)


def moved(pictures: Tensor, *numbers: Tensor) -> Tensor:
    """Pictures through affine maps, black where nothing was.

    Args:
        pictures: ``(N, C, H, W)``.
        *numbers: The six of the matrices that `affine_places` takes, row by row, each ``(N,)``.
    """
    height, width = pictures.shape[2:]
    maps = torch.stack(numbers, 1).view(-1, 2, 3).to(pictures)
    rows, columns = affine_places(maps, height, width)
    inside = (rows >= -0.5) & (rows < height - 0.5) & (columns >= -0.5) & (columns < width - 0.5)
    return sampled(pictures, rows, columns, "border") * inside[:, None]


def apply_each(pictures: Tensor, operations: Mapping[int, Operation], chosen: Tensor, amounts: Tensor) -> Tensor:
    """Each picture through an operation of its own.

    Args:
        pictures: ``(N, C, H, W)``.
        operations: By number.
        chosen: The number of each picture's operation, ``(N,)``, on the CPU; one that is not among them is none.
        amounts: ``(N,)``, on the CPU.
    """
    order = chosen.argsort()  # so that all numbers go to the device at once
    numbers, counts = (each.tolist() for each in chosen.unique(return_counts=True))
    places, levels = order.to(pictures.device).split(counts), amounts[order].to(pictures).split(counts)
    result = pictures.clone()
    for number, own, amount in zip(numbers, places, levels, strict=True):
        if number in operations:
            result[own] = operations[number](pictures[own], amount)
    return result


def _aligned(amounts: Tensor) -> Tensor:
    return amounts.view(-1, 1, 1, 1)


def _levels(pictures: Tensor) -> Tensor:
    return (pictures * 255).round()


def _grey(pictures: Tensor) -> Tensor:
    return pictures if pictures.shape[1] == 1 else grey_level(*pictures.split(1, 1))
