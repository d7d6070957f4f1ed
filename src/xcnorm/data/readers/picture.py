"""Pictures of any of the usual formats, as red, green and blue."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps

from xcnorm.data.readers._files import reading
from xcnorm.errors import UserError

_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".gif", ".ppm", ".pgm"}
# Not everything that Pillow knows: for some formats it starts other programs.
_FORMATS = ("PNG", "JPEG", "BMP", "TIFF", "WEBP", "GIF", "PPM")
_MOST_PIXELS = 100_000_000


def is_picture(path: Path) -> bool:
    """Whether a file is a picture, going by its suffix.

    Example:
        >>> is_picture(Path("cat.JPG")), is_picture(Path("labels.csv"))
        (True, False)
    """
    return path.suffix.lower() in _SUFFIXES


def read_picture(source: Path | BinaryIO, name: str | None = None) -> np.ndarray:
    """Read a picture: PNG, JPEG, BMP, TIFF, WebP, GIF (its first frame), PPM or PGM.

    Grey, palette, CMYK and 16-bit pictures become 8-bit red, green and blue; of 16 bits the upper 8 are kept, for grey
    as for colour. Transparency is dropped, as most programs drop it that read data sets, so the colours are those that
    are stored. A picture that a camera noted as turned is turned upright.

    Args:
        source: The file, or its content.
        name: What to call it if it cannot be read; a file is called by its path.

    Returns:
        ``(H, W, 3)``, uint8.

    Raises:
        UserError: It is missing, damaged, no picture, or has more than 100 megapixels.
    """
    if not isinstance(source, Path):
        return decode(source, name or "the picture", _MOST_PIXELS)
    with reading(source) as file:
        return decode(file, name or source, _MOST_PIXELS)


def decode(file: BinaryIO, name: object, most: int) -> np.ndarray:
    """Read a picture of at most so many pixels, going by its header; see `read_picture`."""
    too_large = UserError(f"{name} is a picture of more than {most:,} pixels; make it smaller")
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(file, formats=_FORMATS) as image:
            if image.width * image.height > most:
                raise too_large
            return _rgb(ImageOps.exif_transpose(image))
    except UserError:
        raise
    except Image.DecompressionBombError as error:
        raise too_large from error
    except Exception as error:  # Pillow raises anything when it is fed a damaged file
        raise UserError(f"{name} is not a picture, or a damaged one; replace it or take it away") from error


def _rgb(image: Image.Image) -> np.ndarray:
    if image.mode == "F":
        raise ValueError("floating-point pixels have no white")
    if image.mode.startswith("I"):
        grey = np.asarray(image)
        if grey.min() < 0 or grey.max() > 0xFFFF:
            raise ValueError("more than 16 bits")
        return np.repeat((grey >> 8).astype(np.uint8)[:, :, np.newaxis], 3, axis=2)
    return np.array(image.convert("RGB"))
