"""The stages after a similarity, by the functions of the equations: for whatever a backend does not fuse."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

import xcnorm.functional as xf
from xcnorm.functional.mask import attention_factor
from xcnorm.functional.rectify import Rectify
from xcnorm.ops.formulas.ncc import Quotient, per_group
from xcnorm.ops.spec import Averages, ChannelNorm, Response, Spec


def respond(quotient: Quotient, alpha: int, spec: Spec) -> Response:
    """A layer's answer from its similarity, for patches of ``alpha`` values."""
    factor = None if spec.mask is None else attention_factor(quotient.norm, *spec.mask, alpha)
    spec.averages.move_c(deviation := quotient.deviation.detach())
    output = run_stages(
        quotient.similarity, factor, spec.tau, spec.gain, spec.norm or ChannelNorm(),
        rectify=spec.rectify, gain_after=spec.gain_after, averages=spec.averages,
    )  # fmt: skip
    return Response(output, deviation)


def run_stages(
    similarity: Tensor,
    factor: Tensor | None,
    tau: Tensor | None,
    gain: Tensor | None,
    norm: ChannelNorm,
    *,
    rectify: Rectify,
    gain_after: bool,
    averages: Averages | None = None,
) -> Tensor:
    """Rectify, sharpen, gain, mask, channel norm: every stage that is on, in the paper's order.

    Args:
        similarity: ``(N, C, *positions)``.
        factor: Of the attention mask, ``(N, groups, *positions)``; None without.
        tau: Exponent; None without.
        gain: ``(C,)``; None without.
        norm: The channel norm.
        rectify: As in `Spec`.
        gain_after: As in `Spec`.
        averages: Of the channel norm, to be moved.
    """
    output = xf.rectify(similarity, rectify)
    if tau is not None:
        output = xf.sharpen(output, tau)
    if gain is not None and not gain_after:
        output = xf.gain(output, gain)
    if factor is not None:
        output = per_group(output, factor)
    output = _channel_norm(output, norm, averages or Averages())
    return xf.gain(output, gain) if gain is not None and gain_after else output


def _channel_norm(values: Tensor, norm: ChannelNorm, averages: Averages) -> Tensor:
    if norm.statistics == "instance":
        return xf.channel_norm(values, "instance", norm.eps)
    if norm.statistics == "given":
        return F.batch_norm(values, norm.mean, norm.variance, eps=norm.eps)
    if norm.statistics == "batch":
        if averages.batches is not None:
            averages.batches.add_(1)
        # In a layer moved to half precision as a whole, the moving averages set the norm's dtype.
        dtype = values.dtype if averages.mean is None else averages.mean.dtype
        return F.batch_norm(
            values.to(dtype), averages.mean, averages.variance, training=True, momentum=averages.momentum, eps=norm.eps
        ).to(values.dtype)
    return values
