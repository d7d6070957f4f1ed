"""What a layer asks of a backend, in which precision, and what a backend answers."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from xcnorm.functional.rectify import Rectify
from xcnorm.functional.sharpen import exponent


@dataclass(frozen=True)
class Correlation:
    """One similarity between every patch of an input and every filter, without the data.

    A dense layer is the case without position axes: empty ``kernel``, ``stride`` and ``dilation``.

    Attributes:
        kernel: Kernel size, one number per position axis.
        stride: Step between patches.
        dilation: Step between the values of a patch.
        padding: Positions added before and after each axis, last axis first, as `torch.nn.functional.pad` takes it.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``. Whatever the mode, the patch that
            is normalised is the patch that is there.
        groups: The channels fall into this many groups with statistics and filters of their own.
        robust: Name of the robust function, or None for plain NCC.
        per_patch: Whether ``c`` is a multiple of each patch's own deviation instead of an absolute scale.
        channelwise: Whether each input channel of a patch is standardised on its own first.
        eps: Floor on the variance of a patch.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[int, ...] = ()
    padding_mode: str = "zeros"
    groups: int = 1
    robust: str | None = None
    per_patch: bool = False
    channelwise: bool = False
    eps: float = 1e-5

    def outputs(self, sizes: torch.Size | tuple[int, ...]) -> tuple[int, ...]:
        """Sizes of the output's position axes for the sizes of the input's, before padding."""
        before, after = self.padding[-2::-2], self.padding[-1::-2]
        if not self.padding:
            return self.positions(sizes)
        return self.positions(tuple(size + b + a for size, b, a in zip(sizes, before, after, strict=True)))

    def positions(self, padded: torch.Size | tuple[int, ...]) -> tuple[int, ...]:
        """Sizes of the output's position axes for the sizes of the padded input's."""
        return tuple(
            (size - dilation * (kernel - 1) - 1) // stride + 1
            for size, kernel, stride, dilation in zip(padded, self.kernel, self.stride, self.dilation, strict=True)
        )


class ChannelNorm(NamedTuple):
    """The channel norm, which is the last stage, as far as one process can take it alone.

    Attributes:
        statistics: What it pools: ``"batch"``, ``"instance"``, ``"given"`` (mean and variance are given); or
            ``"none"``.
        mean: The given one, per channel.
        variance: The given one, per channel.
        eps: Added to the variance.
    """

    statistics: Literal["batch", "instance", "given", "none"] = "none"
    mean: Tensor | None = None
    variance: Tensor | None = None
    eps: float = 0.0


@dataclass(frozen=True)
class Averages:
    """The moving averages that a training step moves, in place.

    Attributes:
        mean: Of the channel norm; None without one that averages, and so for variance and batches.
        variance: The same, unbiased.
        batches: How many it has seen.
        momentum: Weight of the newest batch in these.
        c: Of the robust function's scale; None if that is no average.
        c_momentum: Weight of the newest batch in c.
    """

    mean: Tensor | None = None
    variance: Tensor | None = None
    batches: Tensor | None = None
    momentum: float = 0.0
    c: Tensor | None = None
    c_momentum: float = 0.0

    def move_c(self, deviation: Tensor) -> None:
        """Move c towards the mean deviation of a batch's patches; without patches it stays."""
        if self.c is not None and deviation.numel():
            self.c.lerp_(deviation.mean().to(self.c.dtype), self.c_momentum)

    def move_norm(self, mean: Tensor, variance: Tensor, values: int) -> None:
        """Move mean and variance towards those of so many values of each channel, as torch's batch norm does."""
        if self.mean is not None and self.variance is not None and self.batches is not None:
            self.batches.add_(1)
            self.mean.lerp_(mean.to(self.mean.dtype), self.momentum)
            self.variance.lerp_((variance * (values / (values - 1))).to(self.variance.dtype), self.momentum)


@dataclass(frozen=True)
class Spec:
    """A layer, but for its input and its filters: a similarity, and the stages after it.

    Attributes:
        correlation: The similarity.
        compute_dtype: Of the large products: bfloat16 or float16 under autocast, else the input's.
        c: Scale of the robust function, a tensor of one element; None without one.
        rectify: ``"relu"``, ``"abs"`` or ``"none"``.
        raw_tau: What the exponent of the sharpening is learnt as; None without.
        gain: One per channel; None without.
        gain_after: Whether the gain follows the channel norm.
        mask: Weight and bias of the attention mask; None without.
        norm: The channel norm; None if the layer has it follow by itself.
        averages: What the backend has to move.
        unit_filters: Whether the filters are centred and of unit length already; doing it again does no harm.
    """

    correlation: Correlation
    compute_dtype: torch.dtype
    c: Tensor | None = None
    rectify: Rectify = "none"
    raw_tau: Tensor | None = None
    gain: Tensor | None = None
    gain_after: bool = False
    mask: tuple[Tensor, Tensor] | None = None
    norm: ChannelNorm | None = field(default_factory=ChannelNorm)
    averages: Averages = field(default_factory=Averages)
    unit_filters: bool = False

    @property
    def tau(self) -> Tensor | None:
        """Exponent of the sharpening."""
        return None if self.raw_tau is None else exponent(self.raw_tau)


class Response(NamedTuple):
    """What a backend answers: a layer's output, and the deviation of the patches.

    Attributes:
        output: ``(N, C_out, *positions)``, in float32 or better if a channel norm is still to follow.
        deviation: Standard deviation of the patches before phi, in any shape; no gradient flows into it.
    """

    output: Tensor
    deviation: Tensor


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """The dtype autocast asks for on a device; None where it is off."""
    # Torch refuses the question for the meta device.
    if device.type == "meta" or not torch.is_autocast_enabled(device.type):
        return None
    return torch.get_autocast_dtype(device.type)


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """Autocast off, for code that chooses its own dtypes: a backward may be called inside autocast as well."""
    return nullcontext() if autocast_dtype(device) is None else torch.autocast(device.type, enabled=False)
