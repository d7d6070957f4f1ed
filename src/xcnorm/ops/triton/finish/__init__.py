"""What follows the correlation, as an operator of torch: from numerator and divisor to a layer's output, and back.

Maps are seen as ``(pools, rows, channels)``. A pool is what the channel norm takes its statistics from: the positions
of one image, or those of all images. A program has one tile, some rows of a pool by a few neighbouring channels of one
group, all of it in registers: its loads are under way together, and a pool that fits is read from memory once. What is
summed across programs is written down apart and added in a fixed order, the same in every run.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor

from xcnorm.functional.sharpen import exponent
from xcnorm.ops.autograd import through_formula
from xcnorm.ops.formulas.chain import run_stages
from xcnorm.ops.formulas.ncc import per_group
from xcnorm.ops.spec import ChannelNorm
from xcnorm.ops.triton.finish import backward, forward
from xcnorm.ops.triton.finish.forward import PART, cut
from xcnorm.ops.triton.sums import ADDED, sum_programs


@torch.library.custom_op("xcnorm::finish", mutates_args=())
def finish(
    product: Tensor, divisor: Tensor, factor: Tensor | None, raw_tau: Tensor | None, gain: Tensor | None,
    mean: Tensor | None, variance: Tensor | None, rectify: str, gain_after: bool, statistics: str, eps: float,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Divide, rectify, sharpen, gain, mask factor, channel norm.

    Args:
        product: Numerator, ``(N, positions, C)``, contiguous.
        divisor: ``(N, positions, groups)``, contiguous, float32.
        factor: What the mask multiplies by, like ``divisor``; None without a mask.
        raw_tau: What the exponent of the sharpening is learnt as, float32; None without sharpening.
        gain: One per channel, float32; None without.
        mean: The given one, ``(C,)``, float32.
        variance: The given one, the same.
        rectify: ``"relu"``, ``"abs"`` or ``"none"``.
        gain_after: Whether the gain follows the channel norm.
        statistics: Of the channel norm: ``"batch"``, ``"instance"``, ``"given"`` or ``"none"``.
        eps: Added to the variance.
        dtype: Of the output.

    Returns:
        The output ``(N, positions, C)``; mean and variance that were measured, in float32: ``(N, C)`` of instances,
        ``(C,)`` of a batch (zero if it is empty), else empty.
    """
    shape = _measured(product, statistics)
    measured, spread = (product.new_empty(shape, dtype=torch.float32) for _ in range(2))
    y = torch.empty_like(product, dtype=dtype)
    if not product.numel():
        return y, measured.zero_(), spread.zero_()
    if statistics != "given":
        mean, variance = measured, spread
    tiles = cut(product, divisor, statistics, product.element_size(), PART)
    options = {"RECTIFY": rectify, "AFTER": gain_after, **tiles.constants}
    maps = product, divisor, factor, raw_tau, gain
    if tiles.statistics == "parts":
        partials = product.new_empty((tiles.pools, tiles.parts, 2, tiles.channels), dtype=torch.float32)
        forward.moments_of_parts[tiles.grid](*maps, partials, *tiles.sizes, **options)
        forward.moments_of_pools[(tiles.pools * sum_programs(tiles.channels),)](
            partials, mean, variance, tiles.rows, tiles.parts, tiles.channels, TILE=tiles.tile, num_warps=8
        )
    forward.finish_tile[tiles.grid](*maps, mean, variance, y, eps, *tiles.sizes, STATISTICS=tiles.statistics, **options)
    return y, measured, spread


@finish.register_fake
def _(product, divisor, factor, raw_tau, gain, mean, variance, rectify, gain_after, statistics, eps, dtype):
    shape = _measured(product, statistics)
    return torch.empty_like(product, dtype=dtype), divisor.new_empty(shape), divisor.new_empty(shape)


def _measured(product: Tensor, statistics: str) -> tuple[int, ...]:
    """Shape of the statistics that are measured."""
    images, _, channels = product.shape
    return {"batch": (channels,), "instance": (images, channels)}.get(statistics, (0,))


@torch.library.custom_op("xcnorm::finish_backward", mutates_args=())
def finish_backward(
    grad: Tensor, product: Tensor, divisor: Tensor, factor: Tensor | None, raw_tau: Tensor | None, gain: Tensor | None,
    mean: Tensor, variance: Tensor, rectify: str, gain_after: bool, statistics: str, eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of product, divisor, factor, raw tau and gain, each like its tensor; empty for what is not there.

    From that of the output. Mean and variance are what was measured or given; all else is as `finish` took it.
    """
    tensors = product, divisor, factor, raw_tau, gain
    if not product.numel():
        return tuple(divisor.new_empty(0) if t is None else torch.zeros_like(t) for t in tensors)  # type: ignore[return-value]
    tiles = cut(product, divisor, statistics, max(product.element_size(), grad.element_size()), 2 * PART)
    options = {"RECTIFY": rectify, "AFTER": gain_after, "STRIP": tiles.strip, **tiles.constants}
    # Read as it lies; copied only where images are pooled whose rows are not evenly spaced.
    grad = grad.reshape(tiles.pools, tiles.rows, tiles.channels)
    maps = grad, *grad.stride(), *tensors
    sums = None
    if tiles.statistics == "parts":
        partials, sums = (divisor.new_empty((tiles.pools, parts, 2, tiles.channels)) for parts in (tiles.parts, 1))
        backward.sums_of_parts[tiles.grid](*maps, mean, partials, *tiles.sizes, **options)
        backward.sums_of_pools[(tiles.pools * sum_programs(2 * tiles.channels),)](
            partials, sums, tiles.parts, 2 * tiles.channels, num_warps=8
        )
    dproduct = torch.empty_like(product)
    ddivisors = divisor.new_empty((tiles.wide, *divisor.shape))
    dfactors = None if factor is None else torch.empty_like(ddivisors)
    dtaus = None if raw_tau is None else raw_tau.new_empty(tiles.grid)
    dgains = None if gain is None else gain.new_empty((tiles.pools * tiles.parts, tiles.channels))
    backward.gradients_of_tile[tiles.grid](
        *maps, mean, variance, sums, dproduct, ddivisors, dfactors, dtaus, dgains, eps, divisor.numel(), *tiles.sizes,
        STATISTICS=tiles.statistics, **options,
    )  # fmt: skip
    # Several blocks of channels have the same positions.
    ddivisor = ddivisors[0] if tiles.wide == 1 else torch.empty_like(divisor)
    dfactor = None if dfactors is None else dfactors[0] if tiles.wide == 1 else torch.empty_like(ddivisor)
    dtau, dgain = (None if t is None else torch.empty_like(t) for t in (raw_tau, gain))
    if tiles.wide > 1 or dtau is not None or dgain is not None:
        deep = triton.next_power_of_2(tiles.wide)
        programs = triton.cdiv(divisor.numel(), ADDED.value // deep) if tiles.wide > 1 else 0
        backward.collect[(sum_programs(tiles.channels) + 1 + programs,)](
            ddivisors, ddivisor, dfactors, dfactor, raw_tau, dtaus, dtau, dgains, dgain,
            tiles.pools * tiles.parts, tiles.channels, tiles.grid[0], tiles.wide, divisor.numel(), DEEP=deep,
            num_warps=8,
        )  # fmt: skip
    found = (dproduct, ddivisor, dfactor, dtau, dgain)
    return tuple(divisor.new_empty(0) if t is None else t for t in found)  # type: ignore[return-value]


@finish_backward.register_fake
def _(grad, product, divisor, factor, raw_tau, gain, *options):
    tensors = product, divisor, factor, raw_tau, gain
    return tuple(divisor.new_empty(0) if t is None else torch.empty_like(t) for t in tensors)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, mean, variance, rectify, gain_after, statistics, eps, _ = inputs
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)
    ctx.options = rectify, gain_after, statistics, eps
    if statistics != "given":
        _, mean, variance = output
    ctx.save_for_backward(*tensors, mean, variance)


def _backward(ctx: Any, grad: Tensor | None, *_: Any) -> Any:
    if grad is None:
        return (None,) * 12
    if torch.is_grad_enabled():
        *tensors, mean, variance = ctx.saved_tensors
        rectify, gain_after, statistics, eps = ctx.options

        def formula(
            product: Tensor, divisor: Tensor, factor: Tensor | None, raw_tau: Tensor | None, gain: Tensor | None
        ) -> list[Tensor]:
            output = run_stages(
                per_group(product.float().mT, divisor.mT.reciprocal()), None if factor is None else factor.mT,
                None if raw_tau is None else exponent(raw_tau), gain, ChannelNorm(statistics, mean, variance, eps),
                rectify=rectify, gain_after=gain_after,
            )  # fmt: skip
            return [output.mT.to(grad.dtype)]

        return *through_formula(formula, tensors, [grad]), *(None,) * 7
    gradients = finish_backward(grad, *ctx.saved_tensors, *ctx.options)
    needed = ctx.needs_input_grad[:5]
    return *(g if n else None for g, n in zip(gradients, needed, strict=True)), *(None,) * 7


finish.register_autograd(_backward, setup_context=_setup)
