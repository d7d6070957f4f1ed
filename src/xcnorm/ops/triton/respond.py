"""A whole layer by fused kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from xcnorm.ops.correlation import Correlation, Similarity
from xcnorm.ops.finish import Finish, Response
from xcnorm.ops.triton.operators.correlate import correlate, fits_convolution
from xcnorm.ops.triton.operators.finish import finish
from xcnorm.ops.triton.operators.mask import mask
from xcnorm.ops.triton.operators.track import track


def similarity(
    input: Tensor, weight: Tensor, c: Tensor | None, spec: Correlation, compute_dtype: torch.dtype
) -> Similarity:
    """Similarity by fused kernels; see `xcnorm.ops.similarity`."""
    product, norm, deviation, physical, _ = _correlate(input, weight, c, spec, compute_dtype)
    sizes = spec.outputs(input.shape[2:])
    value = (product.float().unflatten(2, (spec.groups, -1)) / norm.unsqueeze(3)).flatten(2)
    return Similarity(
        value.mT.unflatten(2, sizes) if sizes else value[:, 0],
        physical.mT.unflatten(2, sizes) if sizes else physical[:, 0],
        deviation.permute(2, 0, 1).unflatten(2, sizes) if sizes else deviation[:, 0].mT,
    )


def respond(
    input: Tensor, weight: Tensor, c: Tensor | None, spec: Correlation, stages: Finish, compute_dtype: torch.dtype
) -> Response:
    """Similarity and the stages after it; the output is in ``compute_dtype``."""
    product, norm, deviation, physical, deviations = _correlate(input, weight, c, spec, compute_dtype)
    sizes = spec.outputs(input.shape[2:])
    factor = None
    if stages.mask is not None:
        psi, bias = stages.mask
        height, width = (1,) * (2 - len(sizes)) + sizes
        psi = psi.flatten(0, 1).reshape(spec.groups, *(1,) * (2 - len(sizes)), *psi.shape[2:])
        factor = mask(physical.unflatten(1, (height, width)), psi, bias, weight[0].numel()).flatten(1, 2)
    output, mean, variance = finish(
        product, norm, factor, None if stages.raw_tau is None else stages.raw_tau.flatten(), stages.gain, stages.mean,
        stages.variance, stages.rectify, stages.gain_after, stages.statistics, stages.eps, compute_dtype,
    )  # fmt: skip
    if (averages := stages.averages) is not None:
        pooled = averages.mean is not None
        track(
            mean if pooled else None, variance if pooled else None, averages.mean, averages.variance, averages.batches,
            None if averages.c is None else deviations, averages.c, norm[..., 0].numel(), norm.numel(),
            averages.momentum, averages.c_momentum,
        )  # fmt: skip
    output = output.unflatten(1, sizes).movedim(-1, 1) if sizes else output[:, 0]
    return Response(output, deviation, mean, variance, tracked=averages is not None)


def _correlate(
    input: Tensor, weight: Tensor, c: Tensor | None, spec: Correlation, compute_dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Numerator, divisor, deviation and norm of the patches, and partial sums of the deviation."""
    # (N, H, W, C) without a copy where the input is channels-last already.
    last = input.movedim(1, -1).reshape(
        input.shape[0], *(1,) * (2 - len(spec.kernel)), *input.shape[2:], input.shape[1]
    )
    if not (weight.is_contiguous() or (weight.ndim == 4 and weight.is_contiguous(memory_format=torch.channels_last))):
        weight = weight.contiguous()
    precision = _precision(spec, compute_dtype)
    product, norm, deviation, physical, deviations, *_ = correlate(
        last.contiguous(), weight, c, spec.kernel, spec.stride, spec.dilation, spec.padding, spec.padding_mode,
        spec.groups, spec.robust or "none", spec.per_patch, spec.eps, compute_dtype, precision,
    )  # fmt: skip
    if fits_convolution(spec, compute_dtype, precision):
        physical = norm
    return product, norm, deviation, physical, deviations


def _precision(spec: Correlation, dtype: torch.dtype) -> str:
    """How a product of factors in ``dtype`` is computed; torch's switches for TF32 decide."""
    switch = torch.backends.cudnn if spec.kernel else torch.backends.cuda.matmul
    if dtype != torch.float32 or not switch.allow_tf32:
        return "ieee"
    # float16 does for TF32 where the range of both factors is known: bent patches, and filters that are normalised.
    return "half" if spec.robust is not None and spec.kernel else "tf32"
