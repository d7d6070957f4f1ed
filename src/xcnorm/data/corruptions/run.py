"""Corrupting batches of any size, on any device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from xcnorm.data.colour import grey_level
from xcnorm.data.corruptions.corruption import CORRUPTIONS, Corruption, Fields, Shape
from xcnorm.data.corruptions.frost import with_pictures
from xcnorm.data.streams import Stream, indices
from xcnorm.errors import UserError, unknown_name

_SMALL = 64  # pixels; the constants of ImageNet-C are meant for larger images
# Values worked on at a time: on a CPU what its caches hold, on a GPU what keeps it busy in bounded memory.
_CHUNK = {"cpu": 1 << 19, "cuda": 1 << 23}


def corrupt(
    images: Tensor,
    name: str,
    severity: int = 1,
    seed: int = 0,
    index: Tensor | None = None,
    *,
    constants: str | None = None,
    frost: tuple[Tensor, ...] | None = None,
) -> Tensor:
    """Corrupt images.

    What happens to an image depends on the image, the seed and its own index, never on the other images in the batch.

    Args:
        images: ``(N, C, H, W)`` with one or three channels on any device: uint8, or floating point in [0, 1], which
            is rounded to 8 bits first because that is what the corruptions are defined on.
        name: One of `names()`.
        severity: From 1 to 5.
        seed: Seed of everything random.
        index: ``(N,)``, int64: which image each one is; 0, 1, 2, ... unless given.
        constants: ``"cifar"`` for the severities of CIFAR-10-C or ``"imagenet"`` for those of ImageNet-C; unless
            given, the former for images of fewer than 64 pixels along the shorter side.
        frost: For ``"frost"``: pictures of frost, each ``(3, H, W)``, uint8, at least as large as the images need;
            procedurally generated ones unless given.

    Returns:
        The corrupted images, of the same shape, type and device.

    Raises:
        UserError: The name, the severity or the images are not as described above.
    """
    corruption, chosen = _look_up(name, severity, images, constants, frost)
    index = indices(len(images), index).to(images.device)
    result = torch.empty_like(images)
    chunk = max(1, _CHUNK.get(images.device.type, 1 << 19) // (3 * images.shape[2] * images.shape[3]))
    for start in range(0, len(images), chunk):
        part = slice(start, start + chunk)
        stream = Stream(seed, f"corruption/{name}", index[part])
        fields = corruption.draw(stream, Shape(*images.shape[1:]), chosen)
        result[part] = _run(corruption, images[part], fields, chosen)
    return result


def draw(
    name: str,
    severity: int,
    shape: Shape,
    index: Tensor,
    seed: int = 0,
    *,
    constants: str | None = None,
) -> Fields:
    """Draw what is random in a corruption, without applying it.

    Args:
        name: One of `names()`.
        severity: From 1 to 5.
        shape: Of one image.
        index: ``(N,)``, int64: which image each one is. The fields are made on its device.
        seed: Seed of everything random.
        constants: As for `corrupt`.
    """
    corruption, chosen = _look_up(name, severity, torch.empty(0, *shape, dtype=torch.uint8), constants)
    return corruption.draw(Stream(seed, f"corruption/{name}", index), shape, chosen)


def apply(
    images: Tensor,
    name: str,
    severity: int,
    fields: Fields,
    *,
    constants: str | None = None,
    frost: tuple[Tensor, ...] | None = None,
) -> Tensor:
    """Corrupt images with fields drawn before by `draw`, on the same device; otherwise like `corrupt`."""
    corruption, chosen = _look_up(name, severity, images, constants, frost)
    return _run(corruption, images, fields, chosen)


def find(name: str, severity: int) -> Corruption:
    """A corruption by its name.

    Raises:
        UserError: There is no such corruption or severity.
    """
    if type(severity) is not int or not 1 <= severity <= 5:
        raise UserError(f"severity must be 1, 2, 3, 4 or 5, not {severity!r}")
    return CORRUPTIONS[name]


def _look_up(
    name: str,
    severity: int,
    images: Tensor,
    constants: str | None,
    frost: tuple[Tensor, ...] | None = None,
) -> tuple[Corruption, Any]:
    corruption = find(name, severity)
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise UserError(f"images must be (N, C, H, W) with one or three channels, not {tuple(images.shape)}")
    if min(images.shape[2:]) < 4:
        raise UserError(f"images must have at least 4 pixels along each side, not {tuple(images.shape[2:])}")
    if images.dtype != torch.uint8 and not images.is_floating_point():
        raise UserError(f"images must be uint8, or floating point in [0, 1], not {images.dtype}")
    if images.is_floating_point() and not images.isfinite().all():
        raise UserError("images must be finite; some values are infinite or not numbers")
    if constants is None:
        constants = "cifar" if min(images.shape[2:]) < _SMALL else "imagenet"
    if constants not in ("cifar", "imagenet"):
        raise UserError(unknown_name("constants", constants, ("cifar", "imagenet")))
    if frost is not None and name != "frost":
        raise UserError(f"frost pictures are for the corruption 'frost', not for {name!r}")
    if frost is not None:
        corruption = with_pictures(frost)
    return corruption, getattr(corruption, constants)[severity - 1]


def _run(corruption: Corruption, images: Tensor, fields: Fields, constants: Any) -> Tensor:
    """From 8 bits to float, through the corruption, and back, cutting off as the published files were made."""
    scaled = images.float() if images.dtype == torch.uint8 else (images.float() * 255).round()
    grey = images.shape[1] == 1
    clean = (scaled.clamp(0, 255) / 255).expand(-1, 3, -1, -1)
    wrong = corruption.apply(clean, fields, constants).clamp(0, 1) * 255
    if grey:
        wrong = grey_level(*wrong.split(1, 1))
    # Values that came through unharmed must not fall to the number below because 1/255 has no exact form.
    eight = (wrong + 1e-3).floor()
    return eight.to(torch.uint8) if images.dtype == torch.uint8 else (eight / 255).to(images.dtype)
