"""All moving averages of a layer as an operator of torch: of the channel norm's statistics, and of the scale c."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_CHANNELS = 256  # of a program
_ADDED = 4096  # values that are added up at a time
_MANY = 2**16  # values that are too many for one program


@torch.library.custom_op("xcnorm::track", mutates_args=("running_mean", "running_variance", "batches", "running_c"))
def track(
    mean: Tensor | None, variance: Tensor | None, running_mean: Tensor | None, running_variance: Tensor | None,
    batches: Tensor | None, deviations: Tensor | None, running_c: Tensor | None,
    values: int, patches: int, momentum: float, c_momentum: float,
) -> None:  # fmt: skip
    """Move averages towards a batch, as torch's batch norm does; an empty one leaves them alone.

    Args:
        mean: Of each channel, float32; None where that is not averaged, and so for the others.
        variance: The same, biased; its average is of the unbiased one.
        running_mean: To be moved.
        running_variance: To be moved.
        batches: How many have been seen, to be counted up.
        deviations: Partial sums of the patches' deviation, float32.
        running_c: To be moved towards the mean deviation.
        values: That each mean is of.
        patches: That the deviations are of.
        momentum: Weight of the batch in the channel norm's averages.
        c_momentum: The same for c.
    """
    if not patches:
        return
    if deviations is not None and deviations.numel() > _MANY:
        deviations = deviations.sum().reshape(1)
    channels = 0 if mean is None else mean.numel()
    _track[(triton.cdiv(channels, _CHANNELS) + 1,)](
        mean, variance, running_mean, running_variance, batches, deviations, running_c,
        momentum, values / max(1, values - 1), c_momentum, 1 / patches,
        channels, 0 if deviations is None else deviations.numel(),
        CHANNELS=_CHANNELS, ADDED=_ADDED, num_warps=8,
    )  # fmt: skip


@track.register_fake
def _(*arguments):
    return None


@triton.jit(do_not_specialize=["momentum", "unbiased", "c_momentum", "per_patch", "channels", "count"])
def _track(
    mean, variance, running_mean, running_variance, batches, deviations, running_c,
    momentum, unbiased, c_momentum, per_patch, channels, count, CHANNELS: tl.constexpr, ADDED: tl.constexpr,
):  # fmt: skip
    """Move the averages of the channels; in one more program those of which a layer has one."""
    if tl.program_id(0) < tl.num_programs(0) - 1:
        if mean is not None:
            channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
            exists = channel < channels
            _move(running_mean + channel, tl.load(mean + channel, mask=exists, other=0), momentum, exists)
            new = tl.load(variance + channel, mask=exists, other=0) * unbiased
            _move(running_variance + channel, new, momentum, exists)
    else:
        one = tl.arange(0, 1)
        if batches is not None:
            tl.store(batches + one, tl.load(batches + one) + 1)
        if running_c is not None:
            total = tl.zeros((ADDED,), tl.float32)
            for first in range(0, count, ADDED):
                at = first + tl.arange(0, ADDED)
                total += tl.load(deviations + at, mask=at < count, other=0)
            _move(running_c + one, tl.sum(total) * per_patch + tl.zeros((1,), tl.float32), c_momentum, one == 0)


@triton.jit
def _move(average, new, momentum, exists):
    old = tl.load(average, mask=exists, other=0).to(tl.float32)
    tl.store(average, (old + momentum * (new - old)).to(average.dtype.element_ty), mask=exists)
