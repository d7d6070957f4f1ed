"""The correlation as an operator of torch: numerator and divisor of a similarity, and their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from xcnorm.ops.autograd import through_formula
from xcnorm.ops.formulas.ncc import per_group
from xcnorm.ops.formulas.similarity import similarity
from xcnorm.ops.spec import Correlation
from xcnorm.ops.triton.correlate import convolution, statistics_gradient
from xcnorm.ops.triton.correlate.forward import multiply_patches
from xcnorm.ops.triton.correlate.gradient_unit import largest
from xcnorm.ops.triton.correlate.input_gradient import input_gradient
from xcnorm.ops.triton.correlate.sides import filters_gradient, normalise_filters, padded_copy, patch_statistics
from xcnorm.ops.triton.correlate.weight_gradient import weight_gradient
from xcnorm.ops.triton.geometry import Geometry, Problem, Sides, both_orders_grid


@torch.library.custom_op("xcnorm::correlate", mutates_args=())
def correlate(
    input: Tensor, weight: Tensor, c: Tensor | None, geometry: Sequence[int], padding: str, robust: str | None,
    per_patch: bool, eps: float, precision: str, dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Numerator and divisor of the similarity of every patch of ``(N, H, W, C)`` to every raw filter.

    Only their quotient has a meaning, and only functions of it have a gradient: without a robust function the numerator
    may be that of the patch over its deviation. ``dtype`` is that of the numerator, and of the factors of the product;
    `Problem` explains the rest.

    Returns:
        Numerator ``(N, positions, C_out)`` in ``dtype``; divisor ``(N, positions, groups)``; norm of the patches, after
        phi if there is one, like the divisor, or empty where it is the divisor; their deviation, ``(groups, positions,
        images)``; partial sums of it; and what the backward wants: mean of the patches, and the filters.
    """
    p = Problem(Geometry(*geometry), padding, robust, per_patch, eps, precision)
    plain = precision == "convolution"
    filters, moments = normalise_filters(weight, dtype, precision, write=weight.ndim > 2)
    copied = plain and convolution.needs_copy(p)
    mean, deviation, sums, norm, padded = patch_statistics(input, p, copy=dtype if copied else None)
    if plain:
        product = convolution.convolve(padded, filters, p.geometry, copied=copied)
        return product, norm, norm.new_empty(0), deviation, sums, mean, filters, moments
    sides = _sides(input, weight, filters, moments, mean, deviation, c)
    product, divisor, robust_norm = multiply_patches(sides, p, dtype)
    return product, divisor, norm if robust_norm is None else robust_norm, deviation, sums, mean, filters, moments


@correlate.register_fake
def _(input, weight, c, geometry, padding, robust, per_patch, eps, precision, dtype):
    g = Geometry(*geometry)
    dense = weight.ndim == 2

    def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return input.new_empty(shape, dtype=dtype)

    by_image, by_position = (g.images, g.positions, g.groups), (g.groups, g.positions, g.images)
    return (
        empty(g.images, g.positions, g.out_channels, dtype=dtype),
        empty(*by_image),
        empty(0) if precision == "convolution" else empty(*by_image),
        empty(*by_position),
        empty(math.prod(both_orders_grid(g))),
        empty(*by_position),
        empty(
            *((0,) if dense else (g.out_channels, g.taps, g.channels_per_group)),
            dtype=torch.float16 if precision == "half" else dtype,
        ),
        empty(2, g.out_channels),
    )


@torch.library.custom_op("xcnorm::correlate_backward", mutates_args=())
def correlate_backward(
    grad_product: Tensor, grad_divisor: Tensor, grad_norm: Tensor | None, input: Tensor, weight: Tensor,
    c: Tensor | None, divisor: Tensor, deviation: Tensor, mean: Tensor, filters: Tensor, moments: Tensor,
    of_input: bool, of_weight: bool, of_c: bool, geometry: Sequence[int], padding: str, robust: str | None,
    per_patch: bool, eps: float, precision: str,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of input, weight and c; empty where nobody asked."""
    p = Problem(Geometry(*geometry), padding, robust, per_patch, eps, precision)
    plain = precision == "convolution"
    copied = plain and convolution.needs_copy(p)
    grad_product, grad_divisor = grad_product.contiguous(), grad_divisor.contiguous()
    grad_norm = None if grad_norm is None else grad_norm.contiguous()
    maxima = largest(grad_product, precision)
    sides = _sides(input, weight, filters, moments, mean, deviation, c)
    grad_input, grad_weight, grad_c = (input.new_empty(0, dtype=torch.float32) for _ in range(3))
    if of_weight:
        if plain:
            padded = padded_copy(input, p, grad_product.dtype) if copied else input
            parts = convolution.weight_gradient(grad_product, padded, filters, p.geometry, copied=copied)
            parts = parts.unsqueeze(0)
            del padded
        else:
            parts = weight_gradient(grad_product, maxima, sides, p)
        grad_weight = filters_gradient(parts, weight, moments)
        del parts
    if not (of_input or of_c):
        return grad_input, grad_weight, grad_c
    statistics = to_energy = of_scale_by_norm = None
    if c is None:
        statistics = statistics_gradient.of_plain(grad_divisor, grad_norm, divisor, sides, p)
    else:
        to_energy, of_scale_by_norm = statistics_gradient.of_energy(
            grad_divisor, grad_norm, divisor, sides, p, of_c=of_c
        )
    if plain:
        assert statistics is not None
        known = convolution.input_gradient(grad_product, filters, p.geometry, copied=copied)
        grad_input = torch.empty_like(input)
        statistics_gradient.add_to(grad_input, known, input, statistics, p, copied=copied)
        return grad_input, grad_weight, grad_c
    grad_input, sums = input_gradient(grad_product, maxima, sides, to_energy, statistics, p)
    if c is not None:
        assert to_energy is not None
        statistics, parts_of_c = statistics_gradient.of_robust(sums, to_energy, of_scale_by_norm, sides, p, of_c=of_c)
        statistics_gradient.add_to(grad_input, grad_input, input, statistics, p, copied=False)
        if parts_of_c is not None:
            grad_c = parts_of_c.sum().reshape(c.shape)
    return grad_input, grad_weight, grad_c


@correlate_backward.register_fake
def _(grad_product, grad_divisor, grad_norm, input, weight, c, *rest):
    of_input, of_weight, of_c = rest[5:8]
    nothing = input.new_empty(0, dtype=torch.float32)
    return (
        torch.empty_like(input) if of_input or of_c else nothing,
        torch.empty_like(weight, dtype=torch.float32) if of_weight else nothing.clone(),
        torch.empty_like(c, dtype=torch.float32) if of_c else nothing.clone(),
    )


def _sides(
    input: Tensor, weight: Tensor, filters: Tensor, moments: Tensor, mean: Tensor, deviation: Tensor, c: Tensor | None
) -> Sides:
    """A dense layer's weight is larger than its input: it is normalised along the way, without a copy."""
    if weight.ndim == 2:
        return Sides(input, weight, moments, mean, deviation, c)
    return Sides(input, filters, None, mean, deviation, c)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    input, weight, c, *ctx.settings, ctx.dtype = inputs
    geometry, *options = ctx.settings
    ctx.problem = Problem(Geometry(*geometry), *options)
    product, divisor, norm, deviation, sums, *rest = output
    ctx.set_materialize_grads(False)
    plain = ctx.problem.precision == "convolution"
    ctx.mark_non_differentiable(deviation, sums, *rest, *([norm] if plain else []))
    # Where the patch was divided by its deviation, the divisor is a number and says nothing of that.
    ctx.divided = c is None and not plain
    ctx.save_for_backward(input, weight, c, product if ctx.divided else None, divisor, deviation, *rest)


def _backward(
    ctx: Any, grad_product: Tensor | None, grad_divisor: Tensor | None, grad_norm: Tensor | None, *_: Any
) -> Any:
    input, weight, c, product, divisor, *rest = ctx.saved_tensors
    if torch.is_grad_enabled():
        second = through_formula(
            lambda input, weight, c: _formula(input, weight, c, ctx.problem, ctx.dtype),
            (input, weight, c),
            (grad_product, grad_divisor, grad_norm),
        )
        return *second, *(None,) * (len(ctx.settings) + 1)
    if grad_product is None:
        g = ctx.problem.geometry
        grad_product = input.new_zeros((g.images, g.positions, g.out_channels), dtype=ctx.dtype)
    if ctx.divided:
        along = (grad_product.float() * product.float()).unflatten(2, (divisor.shape[2], -1)).sum(3)
        grad_divisor = -along / divisor
    elif grad_divisor is None:
        grad_divisor = torch.zeros_like(divisor)
    needs = ctx.needs_input_grad[:3]
    gradients = correlate_backward(
        grad_product, grad_divisor, grad_norm, input, weight, c, divisor, *rest, *needs, *ctx.settings
    )
    gradients = [
        gradient.to(of.dtype) if needed else None
        for gradient, of, needed in zip(gradients, (input, weight, c), needs, strict=True)
    ]
    return *gradients, *(None,) * (len(ctx.settings) + 1)


correlate.register_autograd(_backward, setup_context=_setup)


def _formula(input: Tensor, weight: Tensor, c: Tensor | None, p: Problem, dtype: torch.dtype) -> list[Tensor]:
    """Numerator, divisor and norm as `correlate` computes them, in torch alone."""
    g = p.geometry
    kernel = (g.kernel_height, g.kernel_width)
    correlation = Correlation(
        kernel, (g.stride_height, g.stride_width), (g.dilation_height, g.dilation_width),
        (g.left, g.right, g.top, g.bottom), p.padding, g.groups, p.robust, p.per_patch, eps=p.eps,
    )  # fmt: skip
    filters = weight.float().reshape(*weight.shape[:2], *kernel)
    product, divisor, norm, deviation = similarity(input.permute(0, 3, 1, 2).float(), filters, c, correlation, dtype)
    if c is None and p.precision != "convolution":
        product = per_group(product, deviation.reciprocal())
        divisor = torch.full_like(divisor, math.sqrt(g.alpha))
    return [product.to(dtype).flatten(2).mT, divisor.flatten(2).mT, norm.flatten(2).mT]
