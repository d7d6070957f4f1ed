"""What follows the correlation, as an operator."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from xcnorm.ops import dense
from xcnorm.ops.finish import exponent
from xcnorm.ops.triton.operators.define import define, second_derivatives

_TENSORS = "Tensor product, Tensor norm, Tensor? factor, Tensor? tau, Tensor? gain, Tensor? mean, Tensor? variance"
_OPTIONS = "str rectify, bool gain_after, str statistics, float eps, ScalarType dtype"


@define("finish", f"({_TENSORS}, {_OPTIONS}) -> (Tensor, Tensor, Tensor)")
def finish(
    product: Tensor,
    norm: Tensor,
    factor: Tensor | None,
    tau: Tensor | None,
    gain: Tensor | None,
    mean: Tensor | None,
    variance: Tensor | None,
    rectify: str,
    gain_after: bool,
    statistics: str,
    eps: float,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """From numerator and divisor to the output, and mean and variance of the channel norm where they are measured.

    See `xcnorm.ops.triton.finish.finish` for the arguments.
    """
    from xcnorm.ops.triton import finish as kernels

    output, *measured = kernels.finish(
        product, norm, factor, tau, gain, rectify=rectify, gain_after=gain_after, statistics=statistics,
        mean=mean, variance=variance, eps=eps, dtype=dtype,
    )  # fmt: skip
    if statistics == "given":
        measured = [norm.new_empty(0), norm.new_empty(0)]
    return output, *measured  # type: ignore[return-value]


@finish.register_fake
def _(product, norm, factor, tau, gain, mean, variance, rectify, gain_after, statistics, eps, dtype):  # type: ignore[no-untyped-def]
    images, _, channels = product.shape
    shape = {"batch": (channels,), "instance": (images, channels)}.get(statistics, (0,))
    return product.new_empty(product.shape, dtype=dtype), norm.new_empty(shape), norm.new_empty(shape)


@define(
    "finish_backward",
    f"(Tensor grad, {_TENSORS}, str rectify, bool gain_after, str statistics, float eps)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def finish_backward(
    grad: Tensor,
    product: Tensor,
    norm: Tensor,
    factor: Tensor | None,
    tau: Tensor | None,
    gain: Tensor | None,
    mean: Tensor | None,
    variance: Tensor | None,
    rectify: str,
    gain_after: bool,
    statistics: str,
    eps: float,
) -> tuple[Tensor, ...]:
    """Gradients of product, norm, factor, tau and gain; empty for those that are not there."""
    from xcnorm.ops.triton import finish as kernels

    assert mean is not None
    assert variance is not None
    gradients = kernels.finish_backward(
        grad, product, norm, factor, tau, gain, mean, variance,
        rectify=rectify, gain_after=gain_after, statistics=statistics, eps=eps,
    )  # fmt: skip
    return tuple(norm.new_empty(0) if gradient is None else gradient for gradient in gradients)


@finish_backward.register_fake
def _(grad, product, norm, factor, tau, gain, *options):  # type: ignore[no-untyped-def]
    return tuple(norm.new_empty(0) if t is None else torch.empty_like(t) for t in (product, norm, factor, tau, gain))


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, mean, variance, rectify, gain_after, statistics, eps, _ = inputs
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)
    ctx.options = rectify, gain_after, statistics, eps
    if statistics != "given":
        _, mean, variance = output
    ctx.save_for_backward(*tensors, mean, variance)


def _backward(ctx: Any, grad: Tensor, *_: Any) -> Any:
    if grad is None:
        return (None,) * 12
    gradients = finish_backward(grad, *ctx.saved_tensors, *ctx.options)
    needed = ctx.needs_input_grad[:5]
    return *(g if n else None for g, n in zip(gradients, needed, strict=True)), *(None,) * 7


finish.register_autograd(_backward, setup_context=_save)


def _save_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.options = inputs[8:]
    ctx.save_for_backward(*inputs[:8])


def _twice(ctx: Any, *grads: Tensor) -> Any:
    grad, *arguments, mean, variance = ctx.saved_tensors
    rectify, gain_after, statistics, eps = ctx.options
    present = [argument is not None for argument in arguments]

    def formula(*given: Tensor) -> list[Tensor]:
        rest = iter(given)
        product, norm, factor, tau, gain = (next(rest) if there else None for there in present)
        assert product is not None
        assert norm is not None
        output = dense.finished(
            dense.per_group(product.float().mT, norm.mT.reciprocal()),
            None if factor is None else factor.mT,
            None if tau is None else exponent(tau)[:, None],
            gain, mean, variance, rectify=rectify, gain_after=gain_after, statistics=statistics, eps=eps,
        )  # fmt: skip
        return [output.mT]

    second = second_derivatives(formula, arguments, [grad], grads)
    return *second, *(None,) * 6


finish_backward.register_autograd(_twice, setup_context=_save_backward)
