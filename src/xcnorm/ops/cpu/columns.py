"""Robust NCC from columns: the patches of a few images at a time, phi applied, multiplied with the filters."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import Tensor

from xcnorm.functional import ROBUST_FUNCTIONS
from xcnorm.ops.autograd import through_formula
from xcnorm.ops.cpu.blockwise import (
    blocks,
    is_channels_last,
    multiply,
    new_maps,
    new_padded,
    padded,
    unpadded_gradient,
)
from xcnorm.ops.formulas import ncc
from xcnorm.ops.formulas.offsets import by_offsets
from xcnorm.ops.spec import Correlation, full_precision

# Rows of fewer positions than this are copied faster channel by channel.
_SHORT = 16


class Columns(torch.autograd.Function):
    """Numerator and energy of `PatchStatistics.quotient`; the backward cuts the patches and applies phi anew."""

    @staticmethod
    def forward(
        ctx: Any, input: Tensor, level: Tensor, weight: Tensor, mean: Tensor, rate: Tensor, correlation: Correlation
    ) -> tuple[Tensor, Tensor]:
        """``(N, C_out, *positions)`` and ``(N, groups, *positions)``."""
        patches = _Patches(input, level, weight, mean, rate, correlation)
        total, energy = (
            new_maps(input, channels, mean.shape[3:]) for channels in (weight.shape[0], correlation.groups)
        )
        products = patches.products(total)
        cut, kept = patches.buffer(), patches.buffer()
        for block in patches.blocks:
            t, values = cut[: _count(block)], kept[: _count(block)]
            patches.cut(block, t)
            _apply_phi(t, values, values, correlation.robust)
            patches.multiply(values, products[block])
            energy[block] = patches.sums(values.pow_(2))
        ctx.correlation = correlation
        ctx.save_for_backward(input, level, weight, mean, rate)
        return total, energy

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        """Gradients of input, weight, mean and rate."""
        correlation: Correlation = ctx.correlation
        if torch.is_grad_enabled():

            def formula(input: Tensor, level: Tensor, weight: Tensor, mean: Tensor, rate: Tensor) -> Any:
                return by_offsets(ncc.padded(input, level, correlation), weight, mean, rate, correlation, input.dtype)

            return *through_formula(formula, ctx.saved_tensors, grads), None

        with full_precision(grads[0].device):
            return Columns._gradients(ctx, *grads)

    @staticmethod
    def _gradients(ctx: Any, of_total: Tensor, of_energy: Tensor) -> tuple[Tensor | None, ...]:
        input, level, weight, mean, rate = ctx.saved_tensors
        correlation: Correlation = ctx.correlation
        of_input, _, of_weight, of_mean, of_rate, _ = ctx.needs_input_grad
        of_patches = of_input or of_mean or of_rate
        patches = _Patches(input, level, weight, mean, rate, correlation)
        of_products, of_energy = patches.products(of_total), of_energy.flatten(2).unsqueeze(2) * 2
        grad_input, grad_mean = (
            torch.empty_like(maps) if needed else None for maps, needed in ((input, of_input), (mean, of_mean))
        )
        grad_rate, grad_filters = (
            torch.zeros_like(sums) if needed else None
            for sums, needed in ((rate, of_rate), (patches.filters, of_weight))
        )
        cut, kept, works, columns = (patches.buffer() for _ in range(4))
        for block in patches.blocks:
            t, values, work, grad = (buffer[: _count(block)] for buffer in (cut, kept, works, columns))
            patches.cut(block, t)
            _apply_phi(t, values, work, correlation.robust)
            if grad_filters is not None:
                patches.add_filters_gradient(of_products[block], values, grad_filters)
            if not of_patches:
                continue
            patches.multiply_back(of_products[block], of_energy[block], values, grad)
            _multiply_slope(grad, t, values, work, correlation.robust)
            local_rate = _of_images(rate, block)
            if grad_rate is not None:
                along = torch.mul(grad, t, out=values).sum(patches.kernel_axes)
                _of_images(grad_rate, block).add_(along.sum_to_size(local_rate.shape) / local_rate)
            grad.mul_(patches.beside(local_rate))
            if grad_mean is not None:
                shared = mean.shape[2] == 1  # by all channels of a patch
                grad_mean[block] = -(patches.sums(grad).unsqueeze(2) if shared else grad.sum(patches.kernel_axes))
            if grad_input is not None:
                grad_input[block] = patches.pasted(block, grad)
        grad_weight = None if grad_filters is None else patches.like_weight(grad_filters)
        return grad_input, None, grad_weight, grad_mean, grad_rate, None


class _Patches:
    """The patches of an input, cut and scaled a block at a time.

    A buffer of patches looks like ``(images, groups, channels, *kernel, *positions)``. In memory either the positions
    or the channels come last, whichever makes the longer runs.
    """

    def __init__(
        self, input: Tensor, level: Tensor, weight: Tensor, mean: Tensor, rate: Tensor, correlation: Correlation
    ) -> None:
        self._input, self._level, self._mean, self._rate, self._correlation = input, level, mean, rate, correlation
        self._positions = mean.shape[3:]
        self._weight_shape = weight.shape
        channels, rank = weight.shape[1], len(correlation.kernel)
        self.kernel_axes = tuple(range(3, 3 + rank))
        # Patches of one position are one copy either way: there it pays only for the sake of the joint matrix.
        short = _SHORT if math.prod(correlation.kernel) > 1 else _SHORT // 2
        self._inner_channels = is_channels_last(input) or self._positions[-1] < min(short, channels)
        # With the channels last, the patches of all images are rows of one matrix: products of a few columns are slow.
        self._joint = self._inner_channels and correlation.groups == 1
        filters = weight.movedim(1, -1) if self._inner_channels else weight
        self.filters = filters.flatten(1).unflatten(0, (correlation.groups, -1)).contiguous()
        self._shape = (correlation.groups, channels, *correlation.kernel, *self._positions)
        self.blocks = list(blocks(input.shape[0], math.prod(self._shape)))

    def products(self, maps: Tensor) -> Tensor:
        """``(N, C_out, *positions)`` as matrices ``(N, groups, C_out / groups, positions)``."""
        return maps.unflatten(1, (self._correlation.groups, -1)).flatten(3)

    def buffer(self) -> Tensor:
        """Room for the patches of the largest block."""
        images, rank = _count(self.blocks[0]), len(self._positions)
        if not self._inner_channels:
            return self._input.new_empty(images, *self._shape)
        groups, channels = self._shape[:2]
        buffer = self._input.new_empty(images, groups, *self._positions, *self._correlation.kernel, channels)
        return buffer.movedim(-1, 2).movedim(tuple(range(3, 3 + rank)), tuple(range(3 + rank, 3 + 2 * rank)))

    def multiply(self, patches: Tensor, products: Tensor) -> None:
        """Products of a block's patches with the filters, into ``(images, groups, C_out / groups, positions)``."""
        matrices = self._matrices(patches)
        if self._joint:
            products.copy_(multiply(_rows(matrices), self.filters[0].mT).view_as(products.mT).mT)
            return
        for image, group in itertools.product(*map(range, matrices.shape[:2])):
            products[image, group] = multiply(self.filters[group], matrices[image, group])

    def add_filters_gradient(self, of_products: Tensor, patches: Tensor, grad_filters: Tensor) -> None:
        """From the gradient of a block's products: add that of the filters."""
        matrices = self._matrices(patches)
        if self._joint:
            grad_filters[0] += multiply(_rows(of_products).mT, _rows(matrices))
            return
        for image, group in itertools.product(*map(range, matrices.shape[:2])):
            grad_filters[group] += multiply(of_products[image, group], matrices[image, group].mT)

    def multiply_back(self, of_products: Tensor, twice: Tensor, patches: Tensor, out: Tensor) -> None:
        """From the gradient of a block's products and twice that of its energy: that of the patches."""
        matrices, grads = self._matrices(patches), self._matrices(out)
        if self._joint:
            product = multiply(_rows(of_products), self.filters[0])
            torch.addcmul(product, _rows(matrices), _rows(twice), out=_rows(grads))
            return
        for at in itertools.product(*map(range, matrices.shape[:2])):
            product = multiply(self.filters[at[1]].mT, of_products[at])
            torch.addcmul(product, matrices[at], twice[at], out=grads[at])

    def sums(self, patches: Tensor) -> Tensor:
        """The values of each patch added up, ``(images, groups, *positions)``."""
        matrices = self._matrices(patches)
        if self._inner_channels:
            sums = matrices.sum(2)
        else:  # a product with ones takes a third of the time of a sum across rows
            sums = (matrices.new_ones(1, matrices.shape[2]) @ matrices).squeeze(2)
        return sums.unflatten(2, self._positions)

    def _matrices(self, patches: Tensor) -> Tensor:
        """Patches as columns: ``(images, groups, values, positions)``, the values in the order of ``filters``."""
        rank = len(self._positions)
        if not self._inner_channels:
            return patches.flatten(2, 2 + rank).flatten(3)
        rows = patches.movedim(tuple(range(3 + rank, 3 + 2 * rank)), tuple(range(3, 3 + rank))).movedim(2, -1)
        return rows.flatten(2, 1 + rank).flatten(3).mT

    def beside(self, maps: Tensor) -> Tensor:
        """``(images, groups, channels or 1, *positions)``, to be broadcast to patches."""
        return maps[(slice(None), slice(None), slice(None), *(None for _ in self.kernel_axes))]

    def cut(self, block: slice, out: Tensor) -> None:
        """Centred and scaled patches of a block of images."""
        values = padded(self._input[block], self._level[block], self._correlation, channels_last=self._inner_channels)
        torch.sub(self._windows(values), self.beside(self._mean[block]), out=out)
        out.mul_(self.beside(_of_images(self._rate, block)))

    def pasted(self, block: slice, grad: Tensor) -> Tensor:
        """The gradient of a block of the input, from that of its patches."""
        canvas = new_padded(self._input[block], self._correlation, channels_last=self._inner_channels).zero_()
        windows = self._windows(canvas)
        for offset in itertools.product(*map(range, self._correlation.kernel)):
            at: Any = (slice(None), slice(None), slice(None), *offset)
            windows[at].add_(grad[at])
        return unpadded_gradient(canvas, self._correlation)

    def like_weight(self, filters: Tensor) -> Tensor:
        """From the order of ``filters`` to the weight's."""
        if not self._inner_channels:
            return filters.view(self._weight_shape)
        shape = (self._weight_shape[0], *self._weight_shape[2:], self._weight_shape[1])
        return filters.view(shape).movedim(-1, 1).contiguous()

    def _windows(self, values: Tensor) -> Tensor:
        """A view of padded values as patches."""
        windows = values.unflatten(1, (self._correlation.groups, -1))
        for axis, (kernel, stride, dilation) in enumerate(
            zip(self._correlation.kernel, self._correlation.stride, self._correlation.dilation, strict=True), start=3
        ):
            windows = windows.unfold(axis, dilation * (kernel - 1) + 1, stride)[..., ::dilation]
        rank = len(self._positions)
        return windows.movedim(tuple(range(3 + rank, 3 + 2 * rank)), tuple(range(3, 3 + rank)))


def _count(block: slice) -> int:
    return block.stop - block.start


def _rows(matrices: Tensor) -> Tensor:
    """``(images, 1, values, positions)`` as ``(images * positions, values)``; a view if the values come last."""
    return matrices[:, 0].mT.flatten(0, 1)


def _of_images(maps: Tensor, block: slice) -> Tensor:
    """A block of maps that may be the same for all images."""
    return maps if maps.shape[0] == 1 else maps[block]


def _apply_phi(t: Tensor, values: Tensor, work: Tensor, robust: str | None) -> None:
    """``h(t)`` into ``values``; ``work`` may be the same buffer, or keeps what the slope needs."""
    if robust is None:
        values.copy_(t)
    elif (function := ROBUST_FUNCTIONS[robust]).in_place is not None:
        function.in_place.shape(t, values, work)
    else:
        values.copy_(function.shape(t))


def _multiply_slope(grad: Tensor, t: Tensor, values: Tensor, work: Tensor, robust: str | None) -> None:
    """Multiply a gradient by ``h'(t)``, after `_apply_phi`."""
    if robust is None:
        return
    if (function := ROBUST_FUNCTIONS[robust]).in_place is not None:
        function.in_place.slope(t, values, work)
    else:
        work.copy_(function.slope(t))
    grad.mul_(work)
