"""XCNorm layers in ONNX's operators, few and standard ones.

The equations are those of `xcnorm.ops.formulas`, the statistics of patches axis by axis included. Where there are
several sets of channels that are standardised together, each is one more image of the batch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from xcnorm.export.nodes import NodeSettings
from xcnorm.extras import needed
from xcnorm.functional.correlation import robust_floor
from xcnorm.functional.sharpen import SHARPEN_FLOOR

_END = 2**63 - 1  # of an axis, whatever its size

_LARGEST = 80.0  # of which the exponential is still a float32
_BELOW_ONE = 1 - 2.0**-24  # the float32 next to one, whose logarithm is not zero

Value = Any  # of a graph under way; onnxscript has no name for it


def _welsch(op: Any, t: Value) -> Value:
    # 1 - exp(-y) as y (u - 1) / log u with u = exp(-y): precise where y is small, as the rounding of u cancels.
    y = op.Min(op.Mul(op.Mul(t, t), 0.5), _LARGEST)
    u = op.Min(op.Exp(op.Neg(y)), _BELOW_ONE)
    return op.Mul(y, op.Div(op.Sub(u, 1.0), op.Log(u)))


def _tukey(op: Any, t: Value) -> Value:
    rest = op.Relu(op.Sub(1.0, op.Mul(t, t)))
    return op.Mul(t, op.Mul(rest, rest))


SHAPES: dict[str, Callable[[Any, Value], Value]] = {
    "welsch": _welsch,
    "welsch_signed": lambda op, t: op.Mul(op.Sign(t), _welsch(op, t)),
    "welsch_influence": lambda op, t: op.Mul(t, op.Exp(op.Mul(op.Mul(t, t), -0.5))),
    "huber": lambda op, t: op.Clip(t, -1.0, 1.0),
    "cauchy": lambda op, t: op.Div(t, op.Add(op.Mul(t, t), 1.0)),
    "tukey": _tukey,
}
"""The shapes of robust functions by name. A layer with another one is traced as torch computes it."""


def write_layer(input: Value, kernels: Sequence[Value], numbers: Sequence[Value], settings: str) -> Value:
    """What `xcnorm.export.nodes.layer` becomes in a graph; arguments as there."""
    with needed("ONNX files", "export"):
        from onnxscript import opset18
    return _Layer(opset18, NodeSettings.of(settings)).write(input, kernels, list(numbers))


class _Layer:
    """A layer that is being written.

    Args:
        op: ONNX's operators.
        settings: Of the layer.
    """

    def __init__(self, op: Any, settings: NodeSettings) -> None:
        self.op = op
        self.settings = settings
        self.correlation = settings.correlation
        self.groups = self.correlation.groups
        self.sets = settings.channels if self.correlation.channelwise else self.groups
        self.rank = len(self.correlation.kernel)
        self.alpha = settings.channels // self.groups * math.prod(self.correlation.kernel)

    def write(self, input: Value, kernels: Sequence[Value], numbers: list[Value]) -> Value:
        """From input to output."""
        op = self.op
        values = self._centred_roughly(input)
        if self.correlation.robust is None and not self.correlation.channelwise:
            total, divisor, scale = self._plain(values, kernels[0])
        else:
            total, divisor, scale = self._of_patches(values, kernels)
        output = self._sharpened(self._by_group(op.Div, total, divisor))
        if self.settings.mask:
            norm = divisor if scale is None else op.Mul(divisor, scale)
            output = self._by_group(op.Mul, output, self._factor(norm, numbers.pop(0), numbers.pop(0)))
        return self._normalised(output, numbers)

    def _centred_roughly(self, input: Value) -> Value:
        """The padded input without its level, ``(N * sets, C / sets, *sizes)``."""
        level = self._mean(self._split(input), *range(1, self.rank + 2))
        return self.op.Sub(self._split(self._padded(input)), level)

    def _split(self, values: Value) -> Value:
        """``(N, C, *sizes)`` as ``(N * sets, C / sets, *sizes)``."""
        return values if self.sets == 1 else self._to(values, self.settings.channels // self.sets)

    def _padded(self, input: Value) -> Value:
        op, padding = self.op, self.correlation.padding
        before, after = padding[-2::-2], padding[-1::-2]  # the first axis first
        if not any(padding):
            return input
        if self.correlation.padding_mode == "circular":  # which ONNX has since opset 19
            for axis, (b, a) in enumerate(zip(before, after, strict=True), start=2):
                parts = [op.Slice(input, [-b], [_END], [axis])] * (b > 0) + [input]
                parts += [op.Slice(input, [0], [a], [axis])] * (a > 0)
                input = op.Concat(*parts, axis=axis)
            return input
        mode = {"zeros": "constant", "replicate": "edge", "reflect": "reflect"}[self.correlation.padding_mode]
        return op.Pad(input, [0, 0, *before, 0, 0, *after], mode=mode)

    def _moments(self, values: Value) -> tuple[Value, Value]:
        """Mean and variance of every patch, ``(N * sets, 1, *positions)``."""
        op, correlation = self.op, self.correlation
        mean = self._mean(values, 1)
        variance = self._mean(self._square(op.Sub(values, mean)), 1)
        for axis, (kernel, stride) in enumerate(zip(correlation.kernel, correlation.stride, strict=True)):
            if kernel == stride == 1:
                continue
            means, variances = (
                op.Concat(*(self._slice(maps, {axis: at}) for at in range(kernel)), axis=1) for maps in (mean, variance)
            )
            mean = self._mean(means, 1)
            variance = self._mean(op.Add(variances, self._square(op.Sub(means, mean))), 1)
        return mean, variance

    def _plain(self, values: Value, kernel: Value) -> tuple[Value, Value, None]:
        """Numerator and divisor of NCC."""
        op, correlation = self.op, self.correlation
        _, variance = self._moments(values)
        if correlation.kernel:
            how = {"strides": correlation.stride, "dilations": correlation.dilation, "group": self.groups}
            total = op.Conv(self._joined(values, self.settings.channels), kernel, **how)
        else:
            total = op.Gemm(values, kernel, transB=1)
        return total, op.Mul(self._deviation(variance), math.sqrt(self.alpha)), None

    def _of_patches(self, values: Value, kernels: Sequence[Value]) -> tuple[Value, Value, Value]:
        """Numerator, divisor and scale where something happens to patches before the product."""
        op, correlation, eps = self.op, self.correlation, self.correlation.eps
        mean, variance = self._moments(values)
        rate: Value = 1.0
        if correlation.channelwise:
            rate = op.Reciprocal(self._deviation(variance))
            standardised = self._to(op.Mul(variance, self._square(rate)), self.sets // self.groups)
            variance = self._mean(standardised, 1)
        scale: Value = None
        floor: Value = eps
        if correlation.robust is not None and correlation.per_patch:
            scale = op.Mul(self._deviation(variance), self.settings.c)
            nearby = SHAPES[correlation.robust](op, op.Div(op.Min(op.Mul(scale, 0.5), 1.0), scale))
            floor = op.Mul(self._square(nearby), eps)
            rate = (
                op.Div(rate, self._to(op.Concat(*[scale] * (self.sets // self.groups), axis=1), 1))
                if correlation.channelwise
                else op.Reciprocal(scale)
            )
        elif correlation.robust is not None:
            c = torch.tensor(scale := self.settings.c, dtype=torch.float64)
            floor = (robust_floor(c, correlation.robust, eps) / c.square()).item()
            rate = op.Mul(rate, 1 / scale) if correlation.channelwise else 1 / scale
        total, energy = self._products(values, mean, rate, kernels)
        least = self.alpha * floor if isinstance(floor, float) else op.Mul(floor, float(self.alpha))
        return total, op.Sqrt(op.Add(energy, least)), scale

    def _products(self, values: Value, mean: Value, rate: Value, kernels: Sequence[Value]) -> tuple[Value, Value]:
        """Numerator and energy, block by block of the kernel's offsets."""
        op, correlation = self.op, self.correlation
        offsets = [dict(enumerate(at)) for at in itertools.product(*map(range, correlation.kernel))]
        total = energy = None
        for number, kernel in enumerate(kernels):
            block = slice(number * self.settings.block, (number + 1) * self.settings.block)
            views = [self._slice(values, at) for at in offsets[block]]
            t = op.Mul(op.Sub(views[0] if len(views) == 1 else op.Concat(*views, axis=1), mean), rate)
            h = t if correlation.robust is None else SHAPES[correlation.robust](op, t)
            squares = self._sum(self._square(h), 1)
            part = self._joined(h, self.settings.channels * len(views))
            part = op.Conv(part, kernel, group=self.groups) if correlation.kernel else op.Gemm(part, kernel, transB=1)
            total, energy = (part, squares) if total is None else (op.Add(total, part), op.Add(energy, squares))
        if self.sets > self.groups:
            energy = self._sum(self._to(energy, self.sets // self.groups), 1)
        return total, energy

    def _sharpened(self, similarity: Value) -> Value:
        """Rectified and raised to a power; what counts as zero is cut off before the logarithm."""
        op, how, tau = self.op, self.settings.rectify, self.settings.tau
        if tau is None:
            return {"relu": op.Relu, "abs": op.Abs}[how](similarity) if how != "none" else similarity
        magnitude = similarity if how == "relu" else op.Abs(similarity)
        logarithm = op.Log(op.ThresholdedRelu(magnitude, alpha=SHARPEN_FLOOR))
        output = op.Exp(op.Mul(logarithm, tau))
        return op.Mul(output, op.Sign(similarity)) if how == "none" else output

    def _factor(self, norm: Value, weight: Value, bias: Value) -> Value:
        """Of norm-based attention, ``(N * groups, 1, *positions)``."""
        op = self.op
        seen = op.Mul(self._joined(norm, self.groups), 1 / math.sqrt(self.alpha))
        if self.rank:
            seen = op.Pad(seen, [0, 0, *[1] * self.rank] * 2, mode="edge")
            logit = op.Conv(seen, weight, bias, group=self.groups)
        else:
            logit = op.Add(op.Mul(seen, weight), bias)
        mask = op.Sigmoid(logit) if self.groups == 1 else self._to(op.Sigmoid(logit), 1)
        return op.Add(mask, op.Mul(op.Sub(1.0, mask), norm))

    def _normalised(self, output: Value, numbers: list[Value]) -> Value:
        """Gain and channel norm."""
        op, gain, norm = self.op, self.settings.gain, self.settings.norm
        if norm == "instance":
            positions = range(2, self.rank + 2)
            centred = op.Sub(output, self._mean(output, *positions))
            variance = self._mean(self._square(centred), *positions)
            if gain == "before":
                variance = op.Mul(variance, self._square(numbers[0]))
            rate = op.Reciprocal(op.Sqrt(op.Add(variance, self.settings.eps)))
            return op.Mul(centred, rate if gain == "none" else op.Mul(rate, numbers[0]))
        if gain != "none" and (norm != "other" or gain == "before"):
            output = op.Mul(output, numbers[0])
        return op.Add(output, numbers[-1]) if norm == "shift" else output

    def _slice(self, maps: Value, offsets: dict[int, int]) -> Value:
        """What some offsets of the kernel see. The end counts from behind, as sizes are not known."""
        correlation, found = self.correlation, []
        for axis, at in offsets.items():
            kernel, stride, dilation = (
                each[axis] for each in (correlation.kernel, correlation.stride, correlation.dilation)
            )
            if not kernel == stride == 1:
                found.append((at * dilation, -(kernel - 1 - at) * dilation or _END, axis + 2, stride))
        return self.op.Slice(maps, *(list(each) for each in zip(*found, strict=True))) if found else maps

    def _by_group(self, combine: Callable[[Value, Value], Value], output: Value, maps: Value) -> Value:
        """Combine the channels of ``(N, C_out, *positions)`` with the map of their group."""
        if self.groups == 1:
            return combine(output, maps)
        filters = self.settings.filters
        return self._to(combine(self._to(output, filters // self.groups), maps), filters)

    def _joined(self, values: Value, channels: int) -> Value:
        """``(N * sets, C, *sizes)`` as ``(N, channels, *sizes)``."""
        return values if self.sets == 1 else self._to(values, channels)

    def _to(self, values: Value, channels: int) -> Value:
        """The same values with so many channels to an image, of which there are then more or fewer."""
        return self.op.Reshape(values, [-1, channels, *[0] * self.rank])

    def _mean(self, values: Value, *axes: int) -> Value:
        return self.op.ReduceMean(values, list(axes), keepdims=1)

    def _sum(self, values: Value, *axes: int) -> Value:
        return self.op.ReduceSum(values, list(axes), keepdims=1)

    def _square(self, values: Value) -> Value:
        return self.op.Mul(values, values)

    def _deviation(self, variance: Value) -> Value:
        return self.op.Sqrt(self.op.Add(variance, self.correlation.eps))
