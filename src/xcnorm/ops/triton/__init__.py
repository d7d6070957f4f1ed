"""Fused GPU kernels in Triton: the correlation as one implicit matrix product, and everything after it in one pass.

Each of `correlate`, `mask`, `finish` and `track` is an operator of torch with its kernels and its gradient: what a
compiler and autograd see of them. Second derivatives go through the formulas in plain torch.
"""

from __future__ import annotations

import importlib.util
import os

import torch
from torch import Tensor

from xcnorm.functional import ROBUST_FUNCTIONS
from xcnorm.ops.dispatch import Backend, Costly, register_backend
from xcnorm.ops.spec import ChannelNorm, Correlation, Response, Spec

# Triton's interpreter runs kernels on the CPU, slowly; that is how they are tested without a GPU.
_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
_INSTALLED = importlib.util.find_spec("triton") is not None
_LIMIT = 2**31


def respond(input: Tensor, weight: Tensor, spec: Spec) -> Response:
    """Similarity and the stages after it."""
    # Not before a layer runs: a machine without Triton imports this module too.
    from xcnorm.ops.triton.correlate import correlate
    from xcnorm.ops.triton.finish import finish
    from xcnorm.ops.triton.geometry import geometry
    from xcnorm.ops.triton.mask import mask
    from xcnorm.ops.triton.track import track

    correlation, averages = spec.correlation, spec.averages
    g = geometry(input.shape, weight.shape[0], correlation)
    # (N, H, W, C) without a copy where the input is channels-last already.
    last = input.movedim(1, -1).reshape(g.images, g.height, g.width, g.channels)
    if not (weight.is_contiguous() or (weight.ndim == 4 and weight.is_contiguous(memory_format=torch.channels_last))):
        weight = weight.contiguous()
    precision = _precision(correlation, spec.compute_dtype)
    product, divisor, norm, deviation, deviations, *_ = correlate(
        last.contiguous(), weight, spec.c, g, correlation.padding_mode, correlation.robust, correlation.per_patch,
        correlation.eps, precision, spec.compute_dtype,
    )  # fmt: skip
    factor = None
    if spec.mask is not None:
        psi, bias = spec.mask
        psi = psi.reshape(g.groups, *(1,) * (4 - psi.ndim), *psi.shape[2:])
        norm = divisor if precision == "convolution" else norm
        factor = mask(norm.unflatten(1, (g.out_height, g.out_width)), psi, bias, g.alpha).flatten(1, 2)
    channel_norm = spec.norm or ChannelNorm()
    output, mean, variance = finish(
        product, divisor, factor, spec.raw_tau, spec.gain, channel_norm.mean, channel_norm.variance, spec.rectify,
        spec.gain_after, channel_norm.statistics, channel_norm.eps,
        torch.float32 if spec.norm is None else spec.compute_dtype,
    )  # fmt: skip
    if averages.mean is not None or averages.c is not None:
        pooled = averages.mean is not None
        track(
            mean if pooled else None, variance if pooled else None, averages.mean, averages.variance, averages.batches,
            None if averages.c is None else deviations, averages.c, g.images * g.positions, deviation.numel(),
            averages.momentum, averages.c_momentum,
        )  # fmt: skip
    sizes = correlation.outputs(input.shape[2:])
    return Response(output.unflatten(1, sizes).movedim(-1, 1) if sizes else output[:, 0], deviation)


def _precision(correlation: Correlation, dtype: torch.dtype) -> str:
    """How a product of factors in ``dtype`` is computed, as in `Problem`; torch's switches for TF32 decide."""
    switch = torch.backends.cudnn if correlation.kernel else torch.backends.cuda.matmul
    tf32 = dtype == torch.float32 and switch.allow_tf32
    if correlation.robust is None:
        # A convolution rounds its factors by itself.
        rounded = tf32 or dtype == torch.bfloat16
        return "convolution" if rounded and correlation.kernel else "tf32" if tf32 else "ieee"
    if not tf32:
        return "ieee"
    return "half" if correlation.kernel and ROBUST_FUNCTIONS[correlation.robust].bounded else "tf32"


def _unavailable() -> str | None:
    if not _INSTALLED:
        return "Triton is not installed; torch for CUDA brings it"
    if not _INTERPRETED and not torch.cuda.is_available():
        return "there is no CUDA device"
    return None


def _unsupported(input: Tensor, correlation: Correlation) -> str | None:
    if not input.is_cuda and not _INTERPRETED:
        return f"it runs on CUDA devices, the input is on {input.device.type}"
    if input.dtype == torch.float64:
        return "it computes in float32 at most, the input is float64"
    if not torch.compiler.is_compiling() and torch._C._functorch.is_functorch_wrapped_tensor(input):
        return "torch.func cannot see into it"
    if correlation.channelwise:
        return "channelwise=True standardises every channel of a patch on its own"
    if len(correlation.kernel) > 2:
        return "it knows images and signals, not volumes"
    if input.shape[1:].numel() >= _LIMIT or input.shape[0] * input.shape[2:].numel() >= _LIMIT:
        return "one image, or the positions of all, have 2^31 values or more"
    if correlation.robust is not None and ROBUST_FUNCTIONS[correlation.robust].kernel is None:
        return Costly(
            f"the robust function {correlation.robust!r} has no form for kernels, and a layer by torch's operators "
            "takes about 17 times as long as a convolution instead of 1.5 times; give its RobustFunction a kernel"
        )
    return None


register_backend(
    Backend(
        name="triton",
        summary="fused GPU kernels",
        priority=20,
        respond=respond,
        unavailable=_unavailable,
        unsupported=_unsupported,
    )
)
