"""The last stage: every channel standardised over a batch or over each image."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor

from xcnorm.errors import unknown_name

Statistics = Literal["batch", "instance"]


def channel_norm(similarity: Tensor, statistics: Statistics = "batch", eps: float = 1e-5) -> Tensor:
    r"""Channel norm: ``U4 = (U3 - mean) / sigma`` along each channel.

    The print calls sigma a variance; it is the (population) standard deviation. It leaves open what "along each
    channel" pools: all images of the batch, or each image alone. Layers keep moving averages of the batch
    statistics for evaluation; this function is the training-time equation.

    Args:
        similarity: ``U3``, ``(N, C, *positions)``.
        statistics: ``"batch"`` pools over images and positions, ``"instance"`` over positions only.
        eps: Added to the variance inside the root.

    Returns:
        Same shape.

    Raises:
        ValueError: ``statistics`` is unknown, or instance statistics were asked of maps of a single position.

    Example:
        >>> channel_norm(torch.tensor([[1.0], [3.0]]), eps=0.0).flatten()
        tensor([-1.,  1.])
    """
    if statistics not in ("batch", "instance"):
        raise ValueError(unknown_name("statistics", statistics, ("batch", "instance")))
    positions = list(range(2, similarity.ndim))
    if statistics == "instance" and math.prod(similarity.shape[2:]) == 1:
        raise ValueError("instance statistics of a single position are undefined; use statistics='batch'")
    pooled = [0, *positions] if statistics == "batch" else positions
    standardised: Tensor = _Standardise.apply(similarity, pooled, eps)[0]  # type: ignore[no-untyped-call]
    return standardised


class _Standardise(torch.autograd.Function):
    """Mean zero and deviation one along some axes, and one over the deviation."""

    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor, axes: list[int], eps: float) -> tuple[Tensor, Tensor]:
        """Standardised values, and one over their deviation."""
        centred = values - values.mean(axes, keepdim=True)
        rate = (centred.square().mean(axes, keepdim=True) + eps).rsqrt()
        return centred.mul_(rate), rate

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        """Not the standardised values, though they would do: what follows may change those in place, as ReLU(True)."""
        ctx.axes = inputs[1]
        ctx.save_for_backward(inputs[0], output[1])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        """Gradient of the values; that of the rate matters for second derivatives."""
        values, rate = ctx.saved_tensors
        standardised = (values - values.mean(ctx.axes, keepdim=True)) * rate
        grad, grad_rate = grads
        of_rate = grad_rate * rate * (rate.numel() / max(1, standardised.numel()))
        along = (grad * standardised).mean(ctx.axes, keepdim=True) + of_rate
        grad = torch.addcmul(grad - grad.mean(ctx.axes, keepdim=True), standardised, along, value=-1)
        return grad.mul_(rate), None, None
