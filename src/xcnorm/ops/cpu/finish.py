"""Everything after the correlation, in place, a block of images at a time."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from xcnorm.functional.sharpen import SHARPEN_FLOOR
from xcnorm.ops.autograd import through_formula
from xcnorm.ops.cpu.blockwise import blocks
from xcnorm.ops.formulas.chain import run_stages
from xcnorm.ops.formulas.ncc import per_group
from xcnorm.ops.spec import ChannelNorm

_DEAD = math.log2(SHARPEN_FLOOR)
_NEVER = -1e4  # two to the power of it, times any tau, is zero


class FinishOptions(NamedTuple):
    """How the stages are set; see `xcnorm.ops.Spec` and `xcnorm.ops.ChannelNorm`."""

    rectify: Literal["relu", "abs", "none"]
    gain_after: bool
    statistics: Literal["batch", "instance", "given", "none"]
    eps: float


class Finishing(torch.autograd.Function):
    """From the numerator of the similarity to the output of a layer; arguments as `_Stages` takes them.

    With ``s = product * rate`` and ``u = |s|^tau * factor``, the gradient of all that multiplies is a sum of
    ``q = u du``: ``q / s`` for s, ``q log s`` for tau, ``q / factor`` for the factor. So ``product`` is the only large
    tensor the backward needs; it takes the logarithm anew. The gain goes with the channel norm.
    """

    @staticmethod
    def forward(ctx: Any, options: FinishOptions, *inputs: Any) -> tuple[Tensor, ...]:
        """Output, and mean and variance of each channel, ``(C,)``, where the norm pools the batch."""
        stages = _Stages(options, *inputs)
        output = torch.empty_like(inputs[0])
        means, variances, norm = stages.run(output)
        ctx.options = options
        ctx.save_for_backward(*inputs, means, variances)
        measured = [output.new_empty(0), output.new_empty(0)]
        if options.statistics == "batch":
            measured = [(norm.mean * stages.before).flatten(), (norm.variance * stages.before.square()).flatten()]
        ctx.mark_non_differentiable(*measured)
        return output, *measured

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        """Gradients of product, rate, factor, tau and gain."""
        *inputs, means, variances = ctx.saved_tensors
        options: FinishOptions = ctx.options
        if torch.is_grad_enabled():

            def formula(
                product: Tensor, rate: Tensor, factor: Any, tau: Any, gain: Any, mean: Any, variance: Any
            ) -> Any:
                norm = ChannelNorm(options.statistics, mean, variance, options.eps)
                rectify, gain_after = options.rectify, options.gain_after
                similarity = per_group(product, rate)
                return [run_stages(similarity, factor, tau, gain, norm, rectify=rectify, gain_after=gain_after)]

            return None, *through_formula(formula, inputs, grads[:1])

        product, rate, factor, tau, gain, *_ = inputs
        stages = _Stages(options, *inputs)
        output_grad, positions = stages.grouped(grads[0]), stages.positions
        product_grad = torch.empty_like(product)
        rate_grad, factor_grad = (
            torch.empty_like(map) if needed else None
            for map, needed in zip((rate, factor), ctx.needs_input_grad[2:4], strict=True)
        )
        bases, values, scratch = stages.grouped(product_grad), stages.scratch(), stages.scratch()
        sums, weighted_sums, logs = stages.per_image(), stages.per_image(), stages.per_image()
        gain_grad = torch.zeros_like(stages.before)
        for pool in stages.pools:
            for block in pool:
                grad, base = output_grad[block], bases[block]
                masked, other = values[: len(grad)], scratch[: len(grad)]
                stages.base(block, base)
                stages.masked(block, base, masked)
                sums[block] = grad.sum(positions, keepdim=True)
                weighted_sums[block] = torch.mul(grad, masked, out=other).sum(positions, keepdim=True)
            norm = stages.norm(pool, means, variances)
            offset, along, of_gain = stages.through_norm(pool, norm, sums, weighted_sums)
            gain_grad += of_gain
            for block in pool:
                grad, base = output_grad[block], bases[block]
                masked, other = values[: len(grad)], scratch[: len(grad)]
                if len(pool) > 1:
                    stages.masked(block, base, masked)
                if stages.measures:
                    grad = torch.sub(grad, torch.mul(masked, along, out=other), out=other).sub_(offset)
                grad = torch.mul(grad, norm.slope, out=other)
                weighted = masked.mul_(grad)
                if factor_grad is not None:
                    factor_grad[block] = weighted.sum(2)
                if stages.tau is not None:
                    logs[block] = torch.mul(weighted, base, out=other).sum(positions, keepdim=True)
                    weighted.mul_(stages.tau)
                if rate_grad is not None:
                    rate_grad[block] = weighted.sum(2)
                stages.product_gradient(block, grad, weighted, base)
        return (
            None,
            product_grad,
            None if rate_grad is None else rate_grad.div_(rate),
            None if factor_grad is None else factor_grad.div_(factor),
            None if tau is None else logs.sum() * math.log(2),
            None if gain is None else gain_grad.flatten(),
            None,
            None,
        )


class _Norm(NamedTuple):
    """Channel norm and gain, ``u * slope + shift``; every part ``(images or 1, groups, C / groups, 1, ...)``.

    Attributes:
        mean: Of u, or of u times the gain if statistics are given; the same for the variance.
        variance: Of u.
        inverse: One over the deviation.
        inner: Slope of the norm alone, a gain before it included.
        centre: What the norm alone subtracts.
        slope: Of norm and gain.
        shift: Of norm and gain.
    """

    mean: Tensor
    variance: Tensor
    inverse: Tensor
    inner: Tensor
    centre: Tensor
    slope: Tensor
    shift: Tensor


class _Stages:
    """The stages on blocks of images, which are ``(images, groups, C / groups, *positions)``.

    Args:
        options: How the stages are set.
        product: Numerator of the similarity, ``(N, C, *positions)``.
        rate: One over its divisor, ``(N, groups, *positions)``.
        factor: Of the attention mask, same shape.
        tau: The exponent.
        gain: ``(C,)``; and so mean and variance, if the norm has its statistics given.
    """

    def __init__(
        self,
        options: FinishOptions,
        product: Tensor,
        rate: Tensor,
        factor: Tensor | None,
        tau: Tensor | None,
        gain: Tensor | None,
        mean: Tensor | None,
        variance: Tensor | None,
    ) -> None:
        self._options = options
        self._rate, self._factor = rate.unsqueeze(2), None if factor is None else factor.unsqueeze(2)
        self._whole, self._product = product, self.grouped(product)
        self.positions = list(range(3, self._product.ndim))
        self.tau = tau
        ones = product.new_ones(product.shape[1])
        before, after = (None, gain) if options.gain_after else (gain, None)
        self.before, self._after = (self._per_channel(ones if part is None else part) for part in (before, after))
        self._given = None
        if mean is not None and variance is not None:
            self._given = self._per_channel(mean), self._per_channel(variance)
        self.measures = options.statistics in ("batch", "instance")
        every = list(blocks(product.shape[0], product[0].numel()))
        # Blocks that share their statistics.
        self.pools = [every] if options.statistics == "batch" else [[block] for block in every]

    def run(self, output: Tensor) -> tuple[Tensor, Tensor, _Norm]:
        """All stages, into an output; the moments of each image and channel, and the last norm applied."""
        values, scratch = self.grouped(output), self.scratch()
        means, variances = self.per_image(), self.per_image()
        for pool in self.pools:
            for block in pool:
                part = values[block]
                self.base(block, part)
                self.masked(block, part, part)
                if self.measures:
                    means[block] = part.mean(self.positions, keepdim=True)
                    distance = torch.sub(part, means[block], out=scratch[: len(part)])
                    variances[block] = distance.pow_(2).mean(self.positions, keepdim=True)
            norm = self.norm(pool, means, variances)
            for block in pool:
                values[block].mul_(norm.slope).add_(norm.shift)
        return means, variances, norm

    def grouped(self, maps: Tensor) -> Tensor:
        """A view of ``(N, C, *positions)``."""
        return maps.unflatten(1, (self._rate.shape[1], -1))

    def scratch(self) -> Tensor:
        """A buffer for the largest block."""
        return self.grouped(torch.empty_like(self._whole[self.pools[0][0]]))

    def per_image(self) -> Tensor:
        """A buffer for one number per image and channel."""
        return self._product.new_empty([*self._product.shape[:3], *(1 for _ in self.positions)])

    def _per_channel(self, numbers: Tensor) -> Tensor:
        return numbers.view(1, self._rate.shape[1], -1, *(1 for _ in self.positions))

    def base(self, block: slice, out: Tensor) -> None:
        """What comes before the power: the rectified similarity, or the logarithm of its magnitude."""
        torch.mul(self._product[block], self._rate[block], out=out)
        rectify = self._options.rectify
        if rectify == "abs" or (rectify == "none" and self.tau is not None):
            out.abs_()
        if self.tau is not None:
            # Zero would take the logarithm ten times as long; what is dead is told by being below the floor.
            out.clamp_min_(SHARPEN_FLOOR / 2).log2_()
        elif rectify == "relu":
            out.clamp_min_(0)

    def masked(self, block: slice, base: Tensor, out: Tensor) -> None:
        """The similarity after rectify, sharpen and mask: u; ``out`` may be ``base``."""
        if self.tau is None:
            if out is not base:
                out.copy_(base)
        else:
            torch.ops.aten.threshold.out(base, _DEAD, _NEVER, out=out)
            out.mul_(self.tau).exp2_()
            if self._options.rectify == "none":
                out.copysign_(self._product[block])
        if self._factor is not None:
            out.mul_(self._factor[block])

    def norm(self, pool: list[slice], means: Tensor, variances: Tensor) -> _Norm:
        """The channel norm of a pool, from the moments of its images."""
        if self._given is not None:
            mean, variance = self._given
            inverse = (variance + self._options.eps).rsqrt()
            centre = mean * inverse
        elif self.measures:
            images = slice(pool[0].start, pool[-1].stop)
            mean, variance = means[images], variances[images]
            if self._options.statistics == "batch":
                mean, apart = mean.mean(0, keepdim=True), mean
                variance = (variance + (apart - mean).square()).mean(0, keepdim=True)
            inverse = (variance * self.before.square() + self._options.eps).rsqrt()
            centre = mean * self.before * inverse
        else:
            mean = variance = centre = torch.zeros_like(self.before)
            inverse = torch.ones_like(self.before)
        inner = self.before * inverse
        return _Norm(mean, variance, inverse, inner, centre, inner * self._after, -centre * self._after)

    def through_norm(
        self, pool: list[slice], norm: _Norm, sums: Tensor, weighted_sums: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Both numbers of u's gradient, and that of the gain, from sums of ``g`` and ``g u`` over positions.

        The gradient of u is ``(g - offset - u * along) * slope``.
        """
        images = slice(pool[0].start, pool[-1].stop)
        total, weighted = sums[images], weighted_sums[images]
        count = self._product[0, 0, 0].numel()
        if self._options.statistics == "batch":
            count *= len(total)
            total, weighted = total.sum(0, keepdim=True), weighted.sum(0, keepdim=True)
        hat = (norm.inner * weighted - norm.centre * total) / count
        offset, along = total / count - norm.centre * hat, norm.inner * hat
        if self._options.gain_after:
            of_gain = hat * count
        else:
            held = total * norm.mean + hat * count * norm.inner * norm.variance if self.measures else 0
            of_gain = (weighted - held) * norm.inverse
        return offset, along, of_gain.sum(0, keepdim=True)

    def product_gradient(self, block: slice, grad: Tensor, weighted: Tensor, base: Tensor) -> None:
        """Turn a base into the gradient of the product, from that of `masked` or, with a tau, from the weighted one."""
        rectify = self._options.rectify
        if self.tau is not None:
            base.neg_().exp2_().mul_(weighted)
        elif rectify == "relu":
            base.sign_().mul_(grad)
        else:
            base.copy_(grad)
        if rectify == "abs" or (rectify == "none" and self.tau is not None):
            base.mul_(self._product[block].sign())
        base.mul_(self._rate[block])
        if self.tau is None and self._factor is not None:
            base.mul_(self._factor[block])


def finish_into(output: Tensor, options: FinishOptions, *inputs: Any) -> None:
    """The output of `Finishing` for the same arguments, without a gradient."""
    _Stages(options, *inputs).run(output)
