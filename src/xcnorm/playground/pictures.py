"""Pictures on their way in and out: files and drawings brought to the size that networks see, and PNG for the page."""

from __future__ import annotations

import base64
import binascii
import io

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from xcnorm.data.decode import middle_square
from xcnorm.data.readers.picture import decode
from xcnorm.errors import UserError

_MOST_PIXELS = 40_000_000  # of a file; a photograph of today's has half of that
_BOX = 20 / 28  # how much of an MNIST digit's width, or height, is ink


def from_file(content: bytes, pixels: int) -> Tensor:
    """A picture file as networks see it: its middle square, ``(1, 3, pixels, pixels)``, uint8.

    Raises:
        UserError: It is no picture, or damaged, or has more than 40 megapixels.
    """
    return _tensor(middle_square(decode(io.BytesIO(content), "this file", _MOST_PIXELS), pixels))


def from_drawing(content: bytes, pixels: int) -> Tensor:
    """A drawing, bright on black, as the digits of MNIST were made: fitted into a box and centred by its mass.

    Args:
        content: A picture file.
        pixels: Height and width of the result, ``(1, 3, pixels, pixels)``, uint8.

    Raises:
        UserError: As `from_file`.
    """
    drawn = decode(io.BytesIO(content), "the drawing", _MOST_PIXELS).max(axis=2)
    canvas = Image.new("L", (pixels, pixels))
    rows, columns = (np.flatnonzero(drawn.max(axis=axis)) for axis in (1, 0))
    if len(rows):
        ink = Image.fromarray(drawn[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1])
        scale = _BOX * pixels / max(ink.size)
        width, height = (max(1, round(scale * side)) for side in ink.size)
        ink = ink.resize((width, height), Image.Resampling.BOX)
        across, down = _centre(np.asarray(ink))
        canvas.paste(ink, (round(pixels / 2 - across), round(pixels / 2 - down)))
    return _tensor(np.repeat(np.asarray(canvas)[:, :, np.newaxis], 3, axis=2))


def to_png(picture: Tensor) -> str:
    """A picture, ``(1, 3, H, W)`` or a grey one, ``(H, W)``, uint8, as a PNG file in base64."""
    pixels = picture if picture.ndim == 2 else picture[0].permute(1, 2, 0)
    buffer = io.BytesIO()
    Image.fromarray(pixels.contiguous().numpy()).save(buffer, "png")
    return base64.b64encode(buffer.getvalue()).decode()


def from_png(text: object, pixels: int) -> Tensor:
    """The inverse of `to_png`, for a picture of three channels.

    Raises:
        UserError: It is no picture of this size in base64.
    """
    try:
        content = base64.b64decode(text, validate=True)  # type: ignore[arg-type]  # what is no text raises TypeError
    except (TypeError, ValueError, binascii.Error) as error:
        raise UserError("picture must be a picture file in base64") from error
    found = decode(io.BytesIO(content), "picture", pixels * pixels)
    if found.shape[:2] != (pixels, pixels):
        raise UserError(f"picture must have {pixels}x{pixels} pixels, not {found.shape[1]}x{found.shape[0]}")
    return _tensor(found)


def _centre(ink: NDArray[np.uint8]) -> tuple[float, float]:
    """The centre of mass, from the left and from the top."""
    mass = ink.astype(float)
    height, width = mass.shape
    total = max(mass.sum(), 1.0)
    across = (mass.sum(axis=0) * (np.arange(width) + 0.5)).sum() / total
    down = (mass.sum(axis=1) * (np.arange(height) + 0.5)).sum() / total
    return float(across), float(down)


def _tensor(pixels: NDArray[np.uint8]) -> Tensor:
    return torch.from_numpy(np.array(pixels)).permute(2, 0, 1).unsqueeze(0).contiguous()
