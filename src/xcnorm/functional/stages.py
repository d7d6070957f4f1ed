r"""What happens to a similarity afterwards: rectify, sharpen, gain, mask, channel norm.

Maps have the channel on axis 1, ``(N, C, *positions)``; a dense layer has no positions. ``U`` is the similarity
(Upsilon in the paper) and ``||z~||`` the norm of the centred patch (after phi, for R-XCNorm).
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from xcnorm.errors import unknown_name

Rectify = Literal["relu", "abs", "none"]
Statistics = Literal["batch", "instance"]

# Below this a similarity counts as zero: the power's slope tau x^(tau - 1) grows without bound towards 0 for
# tau < 1, and x^tau log(x), the slope in tau, is 0 * inf there.
SHARPEN_FLOOR = 1e-6


def rectify(similarity: Tensor, how: Rectify = "relu") -> Tensor:
    r"""The inner ``max[0, U]`` of eq. (sharpen), or an alternative to it.

    Args:
        similarity: Any shape.
        how: ``"relu"`` as printed; ``"abs"`` ignores polarity (a filter answers to its negative as well);
            ``"none"`` leaves it signed.

    Returns:
        Same shape.

    Raises:
        ValueError: ``how`` is unknown.

    Example:
        >>> rectify(torch.tensor([-0.5, 0.25]), "abs")
        tensor([0.5000, 0.2500])
    """
    if how == "relu":
        return similarity.relu()
    if how == "abs":
        return similarity.abs()
    if how == "none":
        return similarity
    raise ValueError(unknown_name("rectify", how, ("relu", "abs", "none")))


def sharpen(similarity: Tensor, tau: Tensor | float) -> Tensor:
    r"""Sharpening, the power of eq. (sharpen): ``U1 = U^tau`` of a rectified similarity.

    Departures: values below 1e-6 become exactly 0 (see the constant above), and a negative value, which only
    ``rectify="none"`` lets through, keeps its sign: ``sign(U) |U|^tau``.

    Args:
        similarity: ``(N, C, *positions)`` or any shape ``tau`` broadcasts to.
        tau: Exponent, positive; a number or a tensor.

    Returns:
        Same shape.

    Example:
        >>> sharpen(torch.tensor([0.0, 0.5, 1.0]), 2.0)
        tensor([0.0000, 0.2500, 1.0000])
    """
    sharpened: Tensor = _Sharpen.apply(similarity, tau)  # type: ignore[no-untyped-call]
    return sharpened


def gain(similarity: Tensor, factor: Tensor) -> Tensor:
    r"""Gradient scaling: ``U2 = A * U1`` with one learnable factor per channel.

    A channel norm that follows divides the factor out again (only its epsilon notices), so with
    ``gain="before_norm"``, the printed order, A acts only where the norm is off.

    Args:
        similarity: ``(N, C, *positions)``.
        factor: ``A``, ``(C,)``.

    Returns:
        Same shape.

    Example:
        >>> gain(torch.ones(1, 2, 1, 1), torch.tensor([2.0, 3.0])).flatten()
        tensor([2., 3.])
    """
    return similarity * factor.view(-1, *(1,) * (similarity.ndim - 2))


def attention_mask(norm: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    r"""The mask ``m = psi(||z~||)`` of the norm-based attention: one convolution and a sigmoid.

    The paper leaves psi's size open: ours sees the 3-neighbourhood, padded by replication, and one map per group.

    Args:
        norm: ``(N, groups, *positions)``; layers pass the norm divided by ``sqrt(alpha)``, so that psi's weights
            mean the same in every layer.
        weight: ``(groups, 1, *kernel)`` with odd kernel sizes, one per position axis.
        bias: ``(groups,)``.

    Returns:
        ``m`` in ``(0, 1)``, same shape as ``norm``.

    Example:
        >>> attention_mask(torch.ones(1, 1, 4, 4), torch.zeros(1, 1, 3, 3), torch.zeros(1)).unique()
        tensor([0.5000])
    """
    groups = weight.shape[0]
    kernel = weight.shape[2:]
    if not kernel:
        return torch.sigmoid(norm * weight.view(-1) + bias)
    padding = [k // 2 for k in reversed(kernel) for _ in range(2)]
    convolve = (F.conv1d, F.conv2d, F.conv3d)[len(kernel) - 1]
    return torch.sigmoid(convolve(F.pad(norm, padding, mode="replicate"), weight, bias, groups=groups))


def masked_similarity(similarity: Tensor, norm: Tensor, mask: Tensor) -> Tensor:
    r"""Norm-based attention, eq. (mask): ``U3 = m U2 + (1 - m) U2 ||z~||``.

    Between the normalised output (m = 1) and the output without normalisation (m = 0, exactly so for tau = 1).
    The second part is not invariant to the input's gain.

    Args:
        similarity: ``U2``, ``(N, C, *positions)``.
        norm: ``||z~||``, ``(N, groups, *positions)``; the channels of a group are neighbours.
        mask: ``m``, same shape as ``norm``.

    Returns:
        ``(N, C, *positions)``.

    Example:
        >>> u, norm = torch.ones(1, 4, 1, 1), torch.full((1, 2, 1, 1), 3.0)
        >>> masked_similarity(u, norm, torch.tensor([1.0, 0.0]).view(1, 2, 1, 1)).flatten()
        tensor([1., 1., 3., 3.])
    """
    factor = mask_factor(norm, mask)
    return (similarity.unflatten(1, (factor.shape[1], -1)) * factor.unsqueeze(2)).flatten(1, 2)


def mask_factor(norm: Tensor, mask: Tensor) -> Tensor:
    """What norm-based attention multiplies the channels of a group by; arguments as in `masked_similarity`."""
    return mask + (1 - mask) * norm


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
    if statistics == "instance" and similarity.shape[2:].numel() == 1:
        raise ValueError("instance statistics of a single position are undefined; use statistics='batch'")
    pooled = [0, *positions] if statistics == "batch" else positions
    standardised: Tensor = _Standardise.apply(similarity, pooled, eps)[0]  # type: ignore[no-untyped-call]
    return standardised


class _Sharpen(torch.autograd.Function):
    """``sign(u) |u|^tau`` as a power of two, which on a CPU takes half the time of any other."""

    generate_vmap_rule = True

    @staticmethod
    def forward(similarity: Tensor, tau: Tensor | float) -> Tensor:
        """The logarithm of a dead value becomes minus infinity, and two to that is zero."""
        # Not zero before the logarithm: on a CPU that takes ten times as long.
        logarithm = similarity.abs().clamp_min(SHARPEN_FLOOR / 2).log2()
        return (F.threshold(logarithm, math.log2(SHARPEN_FLOOR), -math.inf) * tau).exp2().copysign(similarity)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keep input and output; the logarithm is taken again."""
        similarity, tau = inputs
        ctx.tau = None if isinstance(tau, Tensor) else tau
        ctx.save_for_backward(similarity, output, *([tau] if isinstance(tau, Tensor) else []))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor | None]:
        """Slopes ``tau |y| / |u|`` and ``y log |u|``; both are zero where the value is dead, because ``y`` is."""
        similarity, output, *tensors = ctx.saved_tensors
        tau = tensors[0] if tensors else ctx.tau
        magnitude = similarity.abs().clamp_min(SHARPEN_FLOOR)
        grad_tau = None
        if ctx.needs_input_grad[1]:
            grad_tau = (grads[0] * output * magnitude.log()).sum_to_size(tau.shape)
        return grads[0] * (output.abs() / magnitude) * tau, grad_tau


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
        """Both outputs are all the backward needs."""
        ctx.axes = inputs[1]
        ctx.save_for_backward(*output)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        """Gradient of the values; that of the rate is there for second derivatives."""
        standardised, rate = ctx.saved_tensors
        grad, grad_rate = grads
        share = grad_rate * rate * (rate.numel() / max(1, standardised.numel()))
        along = (grad * standardised).mean(ctx.axes, keepdim=True) + share
        grad = torch.addcmul(grad - grad.mean(ctx.axes, keepdim=True), standardised, along, value=-1)
        return grad.mul_(rate), None, None
