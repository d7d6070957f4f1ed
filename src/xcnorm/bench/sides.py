"""What is measured beside what, and whether it computes what it should."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xcnorm import ops
from xcnorm.bench.shapes import Shape
from xcnorm.bench.timing import LAYOUTS, autocast, dtype_of, race, ready, without_search
from xcnorm.models.wiring import Wiring
from xcnorm.nn import RXCNormConv2d, XCNormConv2d

PLAIN = "plain"
"""Conv2d, BatchNorm2d and ReLU; or the network as published."""
OURS: dict[str, dict[str, Any]] = {
    "xcnorm": {"layer": "xcnorm"},
    "xcnorm paper": {"layer": "xcnorm", "preset": "paper"},
    "r_xcnorm": {"layer": "r_xcnorm"},
    "r_xcnorm paper": {"layer": "r_xcnorm", "preset": "paper"},
}
"""Our layers, as arguments of a network."""
BY_BACKEND: dict[str, dict[str, Any]] = {
    "r_xcnorm dense": {"layer": "r_xcnorm", "backend": "dense"},
    "r_xcnorm reference": {"layer": "r_xcnorm", "backend": "reference"},
}

LIMITS = {"fp32": (1e-5, 5e-3), "tf32": (5e-3, 7e-2), "bf16": (2e-2, 1.3e-1)}
"""The largest relative error, in the norm of the whole tensor, that the gate lets through: of the output, and of
gradients. A precision rounds by u = 2**-24, 2**-11 or 2**-9. The output gets some ten roundings; in float32 those of
long sums count as well. A rectifier's slope flips where rounding changes the sign, at a share of the positions that
goes with u, and so the error of gradients goes with the root of u: three times that root, and in float32 what a single
position costs."""

_GATE_IMAGES, _GATE_PIXELS = 2, 16  # a norm over a map of a few pixels would blow up the rounding of a small value
_UNFOLDED = {"cpu": 2**28, "cuda": 2**32}  # bytes of all patches; the reference holds some six times as many at once


class WeightStandardisedConv2d(nn.Conv2d):
    """Convolution with filters of zero mean and unit variance (Qiao et al., 2019)."""

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C_in, H, W)`` to ``(N, C_out, H', W')``."""
        variance, mean = torch.var_mean(self.weight, (1, 2, 3), keepdim=True)
        weight = (self.weight - mean) / (variance + 1e-10).sqrt()
        return F.conv2d(input, weight, None, self.stride, self.padding)


def opponents(shape: Shape, device: str) -> list[str]:
    """Further sides for some of the shapes, as far as they are installed and fit into memory."""
    unfolded = 4 * shape.positions * shape.patch
    names = [side for side in BY_BACKEND if side != "r_xcnorm reference" or unfolded <= _UNFOLDED[device]]
    return [*names, "weight-standardised conv", *(["b-cos conv"] if has_bcos() else [])]


@cache
def has_bcos() -> bool:
    """Whether the package of the B-cos convolution is installed, and can be imported here."""
    try:
        import_module("bcos.modules")
    except ImportError:  # of it, or of something that it needs and does not declare
        return False
    return True


def make(side: str, shape: Shape, **options: Any) -> nn.Module:
    """The layer of a side, as our networks build theirs.

    Args:
        side: `PLAIN`, one of `OURS`, or one of `opponents`.
        shape: Its geometry.
        **options: Further options of an XCNorm layer.
    """
    size = (shape.channels_in, shape.channels_out, shape.kernel)
    norm = nn.BatchNorm2d(shape.channels_out)
    if side == "weight-standardised conv":
        return nn.Sequential(WeightStandardisedConv2d(*size, shape.stride, shape.padding, bias=False), norm, nn.ReLU())
    if side == "b-cos conv":
        bcos = import_module("bcos.modules")
        return nn.Sequential(bcos.BcosConv2d(*size, shape.stride, shape.padding), norm)
    wiring = Wiring(**({PLAIN: {"layer": "conv"}, **OURS, **BY_BACKEND}[side] | options))
    return wiring.unit(*size, stride=shape.stride, padding=shape.padding, first=shape.first)


def small(shape: Shape) -> Shape:
    """What the gate looks at in place of a shape."""
    return replace(shape, images=_GATE_IMAGES, pixels=_GATE_PIXELS)


def gate(side: str, shape: Shape, precision: str, device: str) -> dict[str, Any]:
    """Compare a side of ours with the reference in float64, on a few small images.

    Returns:
        ``backend``, who answered; ``output`` and ``gradients``, the relative errors; and whether they ``passed`` the
        `LIMITS`.
    """
    return _gate(side, small(shape), precision, device, LAYOUTS[device])


@cache
@without_search()
def _gate(side: str, shape: Shape, precision: str, device: str, layout: torch.memory_format) -> dict[str, Any]:
    """Once for all shapes that are alike when they are small."""
    torch.manual_seed(0)
    layer = make(side, shape)
    state = layer.state_dict()
    if "scale.running_c" in state:
        state["scale.running_c"].fill_(1.0)  # where it bends: from the large value it starts at, phi looks linear
    exact = make(side, shape, backend="reference")
    exact.load_state_dict(state)
    input = torch.randn(shape.input_size).to(dtype_of(precision))
    expected = _answers(exact.double().to(device), input.double().to(device), "fp32")
    input = input.to(device, memory_format=layout)
    errors = [
        float((answer.double() - right).norm() / right.norm())
        for answer, right in zip(_answers(ready(layer, device), input, precision), expected, strict=True)
    ]
    limits = [LIMITS[precision][0], *[LIMITS[precision][1]] * (len(errors) - 1)]
    return {
        "backend": ops.explain(layer, input).backend,
        "output": errors[0],
        "gradients": max(errors[1:]),
        "passed": all(error <= limit for error, limit in zip(errors, limits, strict=True)),
    }


def compare(
    case: str,
    sides: Sequence[str],
    gates: Mapping[str, Mapping[str, Any]],
    build: Callable[[str], nn.Module],
    inputs: Sequence[Tensor],
    precision: str,
    modes: Sequence[str],
    turns: int,
    slow: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Measure the sides that passed their gates; see `xcnorm.bench.timing.race`.

    Args:
        case: What they are compared on.
        sides: Their names.
        gates: What the gates found, of the sides that have one.
        build: Makes a side's module.
        inputs: What they take, in rotation.
        precision: That of all sides.
        modes: Those of all sides.
        turns: How often each is timed.
        slow: Sides that are timed less often.

    Returns:
        A row for each side, the refused ones too.
    """
    passed = [side for side in sides if side not in gates or gates[side]["passed"]]
    modules = {side: ready(build(side), inputs[0].device.type) for side in passed}
    found = race(modules, inputs, precision, modes, turns, slow)
    nothing: dict[str, Any] = {"memory_mib": None, "times": {}}
    return [
        {"case": case, "precision": precision, "side": side, "gate": gates.get(side), **found.get(side, nothing)}
        for side in sides
    ]


def _answers(layer: nn.Module, input: Tensor, precision: str) -> list[Tensor]:
    """Output and gradients, of the input where a network needs it."""
    assert isinstance(layer, XCNormConv2d | RXCNormConv2d)
    wanted = [layer.weight] if layer.in_channels == 3 else [layer.weight, input.requires_grad_()]
    with autocast(precision, input.device.type):
        output = layer(input)
    gradient = torch.randn(output.shape, generator=torch.Generator().manual_seed(0)).to(output)
    return [output.detach(), *torch.autograd.grad(output, wanted, gradient)]
