"""The grey level of a colour."""

from __future__ import annotations

from torch import Tensor


def grey_level(red: Tensor, green: Tensor, blue: Tensor) -> Tensor:
    """How bright a colour is, weighted as in Pillow and in OpenCV (ITU-R BT.601)."""
    return 0.299 * red + 0.587 * green + 0.114 * blue
