"""The correctness gate: no layer is timed that does not compute what the reference computes."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from xcnorm import ops
from xcnorm.bench.conditions import Conditions, without_search
from xcnorm.bench.shapes import LayerShape
from xcnorm.bench.sides import Side, make
from xcnorm.nn import RXCNormConv2d, XCNormConv2d

LIMITS = {"fp32": (1e-5, 5e-3), "tf32": (5e-3, 7e-2), "bf16": (2e-2, 1.3e-1)}
"""The largest relative error, in the norm of the whole tensor, that the gate lets through: of the output, and of
gradients. A precision rounds by u = 2**-24, 2**-11 or 2**-9. The output gets some ten roundings; in float32 those of
long sums count as well. A rectifier's slope flips where rounding changes the sign, at a share of the positions that
goes with u, and so the error of gradients goes with the root of u: three times that root, and in float32 what a single
position costs."""

_IMAGES, _PIXELS = 2, 16  # a norm over a map of a few pixels would blow up the rounding of a small value


def small(shape: LayerShape) -> LayerShape:
    """What the gate looks at in place of a shape."""
    return replace(shape, images=_IMAGES, pixels=_PIXELS)


def gate(side: Side, shape: LayerShape, conditions: Conditions) -> dict[str, Any]:
    """Compare a side of ours with the reference in float64, on a few small images.

    Returns:
        ``backend``, who answered; ``output`` and ``gradients``, the relative errors; and whether they ``passed`` the
        `LIMITS`.
    """
    return _gate(side, small(shape), conditions)


@cache
@without_search()
def _gate(side: Side, shape: LayerShape, conditions: Conditions) -> dict[str, Any]:
    """Once for all shapes that are alike when they are small."""
    torch.manual_seed(0)
    layer = make(side, shape)
    state = layer.state_dict()
    if "scale.running_c" in state:
        state["scale.running_c"].fill_(1.0)  # where phi is not linear, as it is for the large value it starts at
    exact = make(side, shape, backend="reference")
    exact.load_state_dict(state)
    input = torch.randn(shape.input_size).to(conditions.dtype)
    device = conditions.device
    expected = _answers(exact.double().to(device), input.double().to(device), Conditions(device, "fp32"))
    input = input.to(device, memory_format=conditions.layout)
    errors = [
        float((answer.double() - right).norm() / right.norm())
        for answer, right in zip(_answers(conditions.place(layer), input, conditions), expected, strict=True)
    ]
    of_output, of_gradients = LIMITS[conditions.precision]
    output, gradients = errors[0], max(errors[1:])
    return {
        "backend": ops.explain(layer, input).backend,
        "output": output,
        "gradients": gradients,
        "passed": output <= of_output and all(error <= of_gradients for error in errors[1:]),  # nan is neither
    }


def _answers(layer: nn.Module, input: Tensor, conditions: Conditions) -> list[Tensor]:
    """Output and gradients, of the input where a network needs it."""
    assert isinstance(layer, XCNormConv2d | RXCNormConv2d)
    wanted = [layer.weight] if layer.in_channels == 3 else [layer.weight, input.requires_grad_()]
    with conditions.autocast():
        output = layer(input)
    gradient = torch.randn(output.shape, generator=torch.Generator().manual_seed(0)).to(output)
    return [output.detach(), *torch.autograd.grad(output, wanted, gradient)]
