"""The product of NCC by the vendor's convolution, where no patch has to be touched on the way.

The filters are centred, so a patch need not be: its mean drops out of the product. That holds up to rounding, so
only where the product is rounded anyway, to bfloat16 or TF32, and where its range suffices.
"""

from __future__ import annotations

import torch
from torch import Tensor

from xcnorm.ops.triton.geometry import Geometry, Problem


def needs_copy(p: Problem) -> bool:
    """Whether the input has to be padded in memory: the convolution pads by zeros alone, and evenly."""
    g = p.geometry
    return any((g.top, g.bottom, g.left, g.right)) and (p.padding != "zeros" or g.top != g.bottom or g.left != g.right)


def convolve(padded: Tensor, filters: Tensor, g: Geometry, *, copied: bool) -> Tensor:
    """``(N, H, W, C)``, padded if it had to be, with ``(C_out, taps, C_in / groups)`` to ``(N, positions, C_out)``."""
    result = torch.conv2d(
        padded.to(filters.dtype).permute(0, 3, 1, 2), _as_torch(filters, g), None,
        (g.stride_height, g.stride_width), _padding(g, copied), (g.dilation_height, g.dilation_width), g.groups,
    )  # fmt: skip
    return _from_torch(result).flatten(1, 2)


def input_gradient(gradient: Tensor, filters: Tensor, g: Geometry, *, copied: bool) -> Tensor:
    """Gradient of what `convolve` took, ``(N, H, W, C)``, with its padding if that was copied."""
    rest = [
        (size + before + after - dilation * (kernel - 1) - 1) % stride  # pixels that no patch reaches
        for size, before, after, dilation, kernel, stride in (
            (g.height, g.top, g.bottom, g.dilation_height, g.kernel_height, g.stride_height),
            (g.width, g.left, g.right, g.dilation_width, g.kernel_width, g.stride_width),
        )
    ]
    result = torch.conv_transpose2d(
        _to_torch(gradient, g), _as_torch(filters, g), None, (g.stride_height, g.stride_width), _padding(g, copied),
        rest, g.groups, (g.dilation_height, g.dilation_width),
    )  # fmt: skip
    return _from_torch(result)


def weight_gradient(gradient: Tensor, padded: Tensor, filters: Tensor, g: Geometry, *, copied: bool) -> Tensor:
    """Gradient of the filters, ``(C_out, taps, C_in / groups)``."""
    _, result, _ = torch.ops.aten.convolution_backward(
        _to_torch(gradient, g), padded.to(filters.dtype).permute(0, 3, 1, 2), _as_torch(filters, g), None,
        (g.stride_height, g.stride_width), _padding(g, copied), (g.dilation_height, g.dilation_width),
        False, (0, 0), g.groups, (False, True, False),
    )  # fmt: skip
    return _from_torch(result).flatten(1, 2)


def _padding(g: Geometry, copied: bool) -> tuple[int, int]:
    return (0, 0) if copied else (g.top, g.left)


def _as_torch(filters: Tensor, g: Geometry) -> Tensor:
    return filters.unflatten(1, (g.kernel_height, g.kernel_width)).permute(0, 3, 1, 2)


def _to_torch(maps: Tensor, g: Geometry) -> Tensor:
    return maps.unflatten(1, (g.out_height, g.out_width)).permute(0, 3, 1, 2)


def _from_torch(maps: Tensor) -> Tensor:
    return maps.permute(0, 2, 3, 1).contiguous()
