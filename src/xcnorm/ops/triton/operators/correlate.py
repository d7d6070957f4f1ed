"""The correlation as an operator."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from xcnorm.ops import dense
from xcnorm.ops.correlation import Correlation
from xcnorm.ops.triton.operators.define import define, second_derivatives

_SPEC = (
    "int[] kernel, int[] stride, int[] dilation, int[] padding, str padding_mode, int groups, str robust, "
    "bool per_patch, float eps, ScalarType dtype, str precision"
)


@define(
    "correlate",
    f"(Tensor input, Tensor weight, Tensor? c, {_SPEC})"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def correlate(
    input: Tensor,
    weight: Tensor,
    c: Tensor | None,
    kernel: list[int],
    stride: list[int],
    dilation: list[int],
    padding: list[int],
    padding_mode: str,
    groups: int,
    robust: str,
    per_patch: bool,
    eps: float,
    dtype: torch.dtype,
    precision: str,
) -> tuple[Tensor, ...]:
    """Numerator and divisor of the similarity of every patch of ``(N, H, W, C)`` to every filter.

    The product of factors in ``dtype`` is computed in a ``precision`` of ``"ieee"``, ``"tf32"``, or ``"half"``, which
    is TF32 by other means; see `xcnorm.ops.triton.precision`.

    Only their quotient has a meaning, and only functions of it have a gradient: without a robust function the numerator
    may be that of the patch over its deviation.

    Returns:
        Numerator ``(N, positions, C_out)`` in ``dtype``; divisor ``(N, positions, groups)``; deviation of the patches,
        ``(groups, positions, images)``; their norm, after phi if there is one, like the divisor, or empty where it is
        the divisor; partial sums of the deviation; and what the backward wants: mean of the patches, and the filters.
    """
    from xcnorm.ops.triton import convolution, forward, statistics, weights
    from xcnorm.ops.triton.geometry import geometry

    spec = _spec(kernel, stride, dilation, padding, padding_mode, groups, robust, per_patch, eps)
    g = geometry(_shape(input, spec), weight.shape[0], spec)
    plain = fits_convolution(spec, dtype, precision)
    # A convolution rounds its factors by itself, if it does.
    filters, moments = weights.normalise_filters(weight, dtype, "ieee" if plain else precision, write=bool(kernel))
    copied = plain and convolution.needs_copy(g, padding_mode)
    mean, deviation, sums, physical, padded = statistics.patch_statistics(
        input, g, padding_mode, eps, copy=dtype if copied else None
    )
    if plain:
        product = convolution.convolve(padded, filters, g, copied=copied)
        norm, physical = physical, physical.new_empty(0)
    else:
        product, norm, bent = forward.correlate(
            input, filters if kernel else weight, None if kernel else moments, mean, deviation, c, g,
            padding_mode=padding_mode, robust=spec.robust, per_patch=per_patch, eps=eps, dtype=dtype,
            precision=precision,
        )  # fmt: skip
        physical = physical if bent is None else bent
    return product, norm, deviation, physical, sums, mean, filters, moments


@correlate.register_fake
def _(input, weight, c, *settings):  # type: ignore[no-untyped-def]
    from xcnorm.ops.triton.geometry import both_orders_grid

    spec, (dtype, precision) = _spec(*settings[:-2]), settings[-2:]
    kernel, groups = spec.kernel, spec.groups
    images, filters, channels = input.shape[0], weight.shape[0], weight.shape[1]
    positions = math.prod(spec.outputs(_shape(input, spec)[2:]))
    taps = math.prod(kernel)
    full = input.new_empty
    return (
        full((images, positions, filters), dtype=dtype),
        full((images, positions, groups), dtype=torch.float32),
        full((groups, positions, images), dtype=torch.float32),
        full(0 if fits_convolution(spec, dtype, precision) else (images, positions, groups), dtype=torch.float32),
        full(math.prod(both_orders_grid(images, positions, groups)), dtype=torch.float32),
        full((groups, positions, images), dtype=torch.float32),
        full((filters, taps, channels) if kernel else 0, dtype=torch.float16 if precision == "half" else dtype),
        full((2, filters), dtype=torch.float32),
    )


@define(
    "correlate_backward",
    "(Tensor grad_product, Tensor grad_norm, Tensor? grad_deviation, Tensor? grad_physical, "
    "Tensor input, Tensor weight, Tensor? c, "
    "Tensor norm, Tensor deviation, Tensor mean, Tensor filters, Tensor moments, "
    f"bool of_input, bool of_weight, bool of_c, {_SPEC}) -> (Tensor, Tensor, Tensor)",
)
def correlate_backward(
    grad_product: Tensor,
    grad_norm: Tensor,
    grad_deviation: Tensor | None,
    grad_physical: Tensor | None,
    input: Tensor,
    weight: Tensor,
    c: Tensor | None,
    norm: Tensor,
    deviation: Tensor,
    mean: Tensor,
    filters: Tensor,
    moments: Tensor,
    of_input: bool,
    of_weight: bool,
    of_c: bool,
    kernel: list[int],
    stride: list[int],
    dilation: list[int],
    padding: list[int],
    padding_mode: str,
    groups: int,
    robust: str,
    per_patch: bool,
    eps: float,
    dtype: torch.dtype,
    precision: str,
) -> tuple[Tensor, ...]:
    """Gradients of input, weight and c; empty where nobody asked."""
    from xcnorm.ops.triton import convolution, input_gradient, statistics, weight_gradient, weights
    from xcnorm.ops.triton import shares as ways_back
    from xcnorm.ops.triton.geometry import geometry
    from xcnorm.ops.triton.precision import largest

    spec = _spec(kernel, stride, dilation, padding, padding_mode, groups, robust, per_patch, eps)
    g = geometry(_shape(input, spec), weight.shape[0], spec)
    grad_product, grad_norm = grad_product.contiguous(), grad_norm.contiguous()
    grad_deviation, grad_physical = (None if t is None else t.contiguous() for t in (grad_deviation, grad_physical))
    bank, raw = (filters, None) if kernel else (weight, moments)
    maxima = largest(grad_product, precision)
    plain = fits_convolution(spec, dtype, precision)
    copied = plain and convolution.needs_copy(g, padding_mode)
    grad_input, grad_weight, grad_c = (input.new_empty(0, dtype=torch.float32) for _ in range(3))
    if of_weight:
        if plain:
            padded = statistics.padded_copy(input, g, padding_mode, dtype) if copied else input
            parts = convolution.weight_gradient(grad_product, padded, filters, g, copied=copied).unsqueeze(0)
            del padded
        else:
            parts = weight_gradient.weight_gradient(
                grad_product, maxima, input, mean, deviation, c, g,
                padding_mode=padding_mode, robust=spec.robust, per_patch=per_patch,
                precision=precision,
            )  # fmt: skip
        grad_weight = weights.filters_backward(parts, weight, moments)
        del parts
    if not (of_input or of_c):
        return grad_input, grad_weight, grad_c
    if spec.robust is None:
        shares = ways_back.plain_shares(grad_norm, norm, grad_deviation, grad_physical, mean, deviation, g.alpha)
        pull = direct = None
    else:
        assert c is not None
        pull, direct = ways_back.pulls(
            grad_norm, grad_physical, norm, deviation, c, per_patch=per_patch, of_scale=per_patch or of_c
        )
    if plain:
        known = convolution.input_gradient(grad_product, filters, g, copied=copied)
        grad_input = torch.empty_like(input)
        ways_back.settle(grad_input, known, input, shares, g, padding_mode, copied=copied)
        return grad_input, grad_weight, grad_c
    grad_input, sums = input_gradient.input_gradient(
        grad_product, maxima, input, bank, raw, mean, deviation, c, pull, None if spec.robust else shares, g,
        padding_mode=padding_mode, robust=spec.robust, per_patch=per_patch, precision=precision,
    )  # fmt: skip
    if spec.robust is not None:
        assert c is not None
        assert pull is not None
        shares, each_c = ways_back.robust_shares(
            sums, pull, direct, grad_deviation, mean, deviation, c, g.alpha,
            robust=spec.robust, per_patch=per_patch, eps=eps, of_c=of_c,
        )  # fmt: skip
        ways_back.settle(grad_input, grad_input, input, shares, g, padding_mode, copied=False)
        if each_c is not None:
            grad_c = each_c.sum().reshape(c.shape)
    return grad_input, grad_weight, grad_c


@correlate_backward.register_fake
def _(grad_product, grad_norm, grad_deviation, grad_physical, input, weight, c, *rest):  # type: ignore[no-untyped-def]
    of_input, of_weight, of_c = rest[5:8]
    nothing = input.new_empty(0, dtype=torch.float32)
    return (
        torch.empty_like(input) if of_input or of_c else nothing,
        torch.empty_like(weight, dtype=torch.float32) if of_weight else nothing.clone(),
        torch.empty_like(c, dtype=torch.float32) if of_c else nothing.clone(),
    )


def _save_correlate(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    input, weight, c, *ctx.spec = inputs
    product, norm, deviation, physical, sums, *rest = output
    ctx.set_materialize_grads(False)
    spec, (dtype, precision) = _spec(*ctx.spec[:-2]), ctx.spec[-2:]
    plain = fits_convolution(spec, dtype, precision)
    ctx.mark_non_differentiable(sums, *rest, *([physical] if plain else []))
    # Where the patch was divided by its deviation, the divisor is a number and says nothing of that.
    ctx.divided = spec.robust is None and not plain
    ctx.save_for_backward(input, weight, c, product if ctx.divided else None, norm, deviation, *rest)


def _backward_correlate(
    ctx: Any, grad_product: Tensor, grad_norm: Tensor, grad_deviation: Tensor, grad_physical: Tensor, *_: Any
) -> Any:
    input, weight, c, product, norm, *rest = ctx.saved_tensors
    groups, positions, images = rest[0].shape
    if grad_product is None:
        grad_product = input.new_zeros((images, positions, weight.shape[0]), dtype=ctx.spec[-2])
    if ctx.divided:
        along = (grad_product.float() * product.float()).unflatten(2, (groups, -1)).sum(3)
        grad_norm = -along / norm
    elif grad_norm is None:
        grad_norm = torch.zeros_like(norm)
    needs = ctx.needs_input_grad[:3]
    gradients = correlate_backward(
        grad_product, grad_norm, grad_deviation, grad_physical, input, weight, c, norm, *rest, *needs, *ctx.spec
    )
    gradients = [
        gradient.to(of.dtype) if needed else None
        for gradient, of, needed in zip(gradients, (input, weight, c), needs, strict=True)
    ]
    return *gradients, *(None,) * len(ctx.spec)


correlate.register_autograd(_backward_correlate, setup_context=_save_correlate)


def _plain_correlate(
    input: Tensor, weight: Tensor, c: Tensor | None, spec: Correlation, dtype: torch.dtype, precision: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What `correlate` computes and can be differentiated, in torch alone."""
    maps = input.permute(0, 3, 1, 2) if len(spec.kernel) == 2 else input[:, 0].mT if spec.kernel else input[:, 0, 0]
    similarity = dense.similarity(maps.float(), weight.float(), c, spec, dtype)
    norm = physical = similarity.norm
    if spec.robust is not None:
        assert c is not None
        norm = norm / (c * similarity.deviation if spec.per_patch else c)
    elif not fits_convolution(spec, dtype, precision):
        norm = torch.full_like(norm, math.sqrt(weight[0].numel()))  # the patch was divided by its deviation
    value, norm, deviation, physical = (
        m.flatten(2).mT if spec.kernel else m.unsqueeze(1)
        for m in (similarity.value, norm, similarity.deviation, physical)
    )
    product = (value.unflatten(2, (spec.groups, -1)) * norm.unsqueeze(3)).flatten(2)
    return product, norm, deviation.permute(2, 1, 0), physical


def _save_correlate_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.settings = inputs[15:]
    ctx.save_for_backward(*inputs[:7])


def _twice_correlate(ctx: Any, *grads: Tensor) -> Any:
    spec, (dtype, precision) = _spec(*ctx.settings[:-2]), ctx.settings[-2:]

    def formula(input: Tensor, weight: Tensor, *c: Tensor) -> Any:
        return _plain_correlate(input, weight, c[0] if c else None, spec, dtype, precision)

    grads_out, arguments = ctx.saved_tensors[:4], ctx.saved_tensors[4:]
    second = second_derivatives(formula, arguments, grads_out, grads)
    return *second, *(None,) * (8 + len(ctx.settings))


correlate_backward.register_autograd(_twice_correlate, setup_context=_save_correlate_backward)


def fits_convolution(spec: Correlation, dtype: torch.dtype, precision: str) -> bool:
    """Whether the product may run as a plain convolution; see `xcnorm.ops.triton.convolution`."""
    rounded = dtype == torch.bfloat16 or precision == "tf32"
    return spec.robust is None and bool(spec.kernel) and rounded


def _spec(
    kernel: list[int],
    stride: list[int],
    dilation: list[int],
    padding: list[int],
    padding_mode: str,
    groups: int,
    robust: str,
    per_patch: bool,
    eps: float,
) -> Correlation:
    return Correlation(
        tuple(kernel), tuple(stride), tuple(dilation), tuple(padding), padding_mode, groups,
        None if robust == "none" else robust, per_patch, eps=eps,
    )  # fmt: skip


def _shape(input: Tensor, spec: Correlation) -> tuple[int, ...]:
    """``(N, C, *sizes)`` of an input that lies as ``(N, H, W, C)``."""
    images, *sizes, channels = input.shape
    return images, channels, *sizes[2 - len(spec.kernel) :]
