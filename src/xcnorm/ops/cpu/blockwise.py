"""Work on a CPU, in blocks of images that fit its caches: padding, moments over channels, products of matrices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from xcnorm.ops.formulas.ncc import Moments
from xcnorm.ops.spec import Correlation

# Values per thread, 2 MiB in float32, chosen by measurement: smaller blocks spend their time on calls, larger ones drop
# out of the cache and, worse, make the allocator hand memory back to the system and fetch it again.
BLOCK = 2**19

# torch multiplies float32 matrices by MKL, which uses half of what a CPU of another maker can do. This operator is what
# torch's own compiler emits for dense layers.
_LINEAR = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if torch.backends.mkldnn.is_available() else None
_NARROW = 32  # below so many rows or columns of either factor, what oneDNN sets up costs more than it saves

_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def blocks(images: int, values: int) -> Iterator[slice]:
    """Slices of the image axis, for images of ``values`` values."""
    size = max(1, BLOCK * torch.get_num_threads() // values)
    return (slice(start, min(start + size, images)) for start in range(0, images, size))


def multiply(left: Tensor, right: Tensor) -> Tensor:
    """``left @ right`` of two float32 matrices, in any layout; nobody asks for its gradient."""
    if _LINEAR is None or min(*left.shape, right.shape[1]) < _NARROW:
        return left @ right
    product: Tensor = _LINEAR(left, right.mT, None, "none", [], "")
    return product


def is_channels_last(input: Tensor) -> bool:
    """Whether the channels of ``(N, C, *sizes)`` lie beside one another."""
    layout = _CHANNELS_LAST.get(input.ndim)
    return layout is not None and not input.is_contiguous() and input.is_contiguous(memory_format=layout)


def new_maps(input: Tensor, channels: int, sizes: Sequence[int], *, channels_last: bool | None = None) -> Tensor:
    """Room for ``(N, channels, *sizes)``, with the channels last in memory if they are so in the input."""
    if is_channels_last(input) if channels_last is None else channels_last:
        return input.new_empty(input.shape[0], *sizes, channels).movedim(-1, 1)
    return input.new_empty(input.shape[0], channels, *sizes)


def new_padded(input: Tensor, correlation: Correlation, *, channels_last: bool | None = None) -> Tensor:
    """Room for an input with its padding."""
    sizes = [size + sum(pair) for size, pair in zip(input.shape[2:], _pairs(correlation), strict=True)]
    return new_maps(input, input.shape[1], sizes, channels_last=channels_last)


def padded(input: Tensor, level: Tensor, correlation: Correlation, *, channels_last: bool | None = None) -> Tensor:
    """``(N, C, *sizes)`` padded, minus the level ``(N, sets)`` of each set of channels, as `ncc.padded` does it."""
    result = new_padded(input, correlation, channels_last=channels_last)
    sets = (level.shape[1], -1)
    level = level[(..., *(None,) * (input.ndim - 1))]
    torch.sub(input.unflatten(1, sets), level, out=inside(result, correlation).unflatten(1, sets))
    for border, source in _borders(result, correlation):
        if source is None:
            border.unflatten(1, sets).copy_(-level)
        else:
            border.copy_(source)
    return result


def inside(padded: Tensor, correlation: Correlation) -> Tensor:
    """The view of ``(N, C, *padded)`` that holds the input."""
    for axis, (before, after) in enumerate(_pairs(correlation), start=2):
        padded = padded.narrow(axis, before, padded.shape[axis] - before - after)
    return padded


def unpadded_gradient(grad: Tensor, correlation: Correlation) -> Tensor:
    """From the gradient of `padded` to that of its input, a view of it, in place."""
    for border, source in reversed(list(_borders(grad, correlation))):
        if source is not None:
            source.add_(border)
    return inside(grad, correlation)


def _pairs(correlation: Correlation) -> list[tuple[int, int]]:
    """Padding before and after each position axis, first axis first."""
    if not correlation.padding:
        return [(0, 0)] * len(correlation.kernel)
    return list(zip(correlation.padding[-2::-2], correlation.padding[::-2], strict=True))


def _borders(padded: Tensor, correlation: Correlation) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Every line of the borders and the one it is a copy of, in the order of copying."""
    for axis, (before, after) in enumerate(_pairs(correlation), start=2):
        end = padded.shape[axis] - after
        for line in (*range(before), *range(end, end + after)):
            source = {
                "zeros": None,
                "replicate": before if line < before else end - 1,
                "reflect": 2 * (before if line < before else end - 1) - line,
                "circular": line + (end - before if line < before else before - end),
            }[correlation.padding_mode]
            yield padded.narrow(axis, line, 1), None if source is None else padded.narrow(axis, source, 1)


def channel_moments(input: Tensor, level: Tensor) -> Moments:
    """`ncc.channel_moments` without its gradient."""
    all_values, level = by_sets(input, level)
    mean, variance = (all_values.new_empty(*all_values.shape[:2], *all_values.shape[3:]) for _ in range(2))
    for block in blocks(len(input), input[0].numel()):
        values = all_values[block] - level[block]
        torch.mean(values, 2, out=mean[block])
        torch.mean(values.sub_(mean[block].unsqueeze(2)).pow_(2), 2, out=variance[block])
    return Moments(mean, variance)


def moments_gradient(of_mean: Tensor, of_variance: Tensor, mean: Tensor, channels: int) -> tuple[Tensor, Tensor]:
    """Slope and offset of the values' gradient ``values * slope + offset``, each ``(N, sets, 1, *sizes)``."""
    slope = of_variance * (2 / channels)
    return slope.unsqueeze(2), (of_mean / channels - slope * mean).unsqueeze(2)


def by_sets(input: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
    """``(N, sets, channels, *sizes)``, and the level beside it."""
    return input.unflatten(1, (level.shape[1], -1)), level[(..., *(None,) * (input.ndim - 1))]
