"""Nodes: XCNorm layers of which each is one step of a trace.

Traced as what torch computes, a deep network would have thousands of steps, and torch's ONNX exporter would take
minutes for them. What a node becomes in a file is in `xcnorm.export.operators`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from xcnorm.fusion.fixed import FixedStages
from xcnorm.nn import InstanceNorm, XCNormLayer
from xcnorm.ops import Correlation

_LARGE = 4  # times the layer's wider side: so many values per position may a block of the kernel's offsets hold


@dataclass(frozen=True)
class NodeSettings:
    """All that decides which operators a layer becomes.

    Attributes:
        correlation: The similarity.
        channels: Of the input.
        filters: How many there are.
        block: So many of a kernel's offsets are looked at together, where something happens to patches.
        c: Scale of the robust function, or the multiple.
        rectify: As in `xcnorm.ops.Spec`.
        tau: Exponent; None without.
        mask: Whether there is an attention mask. Its weight and bias are the first two of the numbers.
        gain: ``"before"`` or ``"after"`` the norm, where there is one: the next of the numbers; else ``"none"``.
        norm: ``"shift"``, which is the last of the numbers; ``"instance"``; ``"none"``; or ``"other"``, which follows
            as a module of its own, and the gain after it.
        eps: Of an instance norm.
    """

    correlation: Correlation
    channels: int
    filters: int
    block: int
    c: float
    rectify: str
    tau: float | None
    mask: bool
    gain: str
    norm: str
    eps: float

    def to_json(self) -> str:
        """As an operator of torch's takes it."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> NodeSettings:
        """The way back."""
        values = json.loads(text)
        correlation: dict[str, Any] = values.pop("correlation")
        sizes = {name: tuple(value) for name, value in correlation.items() if isinstance(value, list)}
        return cls(correlation=Correlation(**(correlation | sizes)), **values)


@torch.library.custom_op("xcnorm::layer", mutates_args=())
def layer(input: Tensor, kernels: Sequence[Tensor], numbers: Sequence[Tensor], settings: str) -> Tensor:
    """A layer as one step of a trace, which is never run."""
    raise NotImplementedError


@layer.register_fake
def _(input: Tensor, kernels: Sequence[Tensor], numbers: Sequence[Tensor], settings: str) -> Tensor:
    known = NodeSettings.of(settings)
    return input.new_empty((input.shape[0], known.filters, *known.correlation.outputs(input.shape[2:])))


class LayerNode(nn.Module):
    """A fused layer as a node.

    Args:
        source: The layer, in float32.
    """

    def __init__(self, source: XCNormLayer) -> None:
        super().__init__()
        stages, self.correlation = source.stages, source.correlation
        assert isinstance(stages, FixedStages)
        self.norm = stages.norm
        kernels, block = kernels_of_blocks(source.weight, self.correlation)
        norm = {nn.Identity: "none", InstanceNorm: "instance"}.get(type(self.norm), "other")
        norm = "none" if norm == "instance" and self.norm.weight is not None else norm
        gain = "none" if stages.gain is None else "after" if stages.options.gain == "after_norm" else "before"
        self.settings = NodeSettings(
            self.correlation,
            channels=source.weight.shape[1] * self.correlation.groups,
            filters=len(source.weight),
            block=block,
            c=0.0 if source.scale is None else source.scale(torch.float32, source.weight.device).item(),
            rectify=stages.options.rectify,
            tau=None if stages.tau is None else stages.tau.item(),
            mask=stages.mask is not None,
            gain=gain,
            norm="shift" if stages.shift is not None else norm,
            eps=float(getattr(self.norm, "eps", 0.0)),
        )
        rank = len(self.correlation.kernel)
        numbers: list[Tensor] = [] if stages.mask is None else [stages.mask.weight, stages.mask.bias]
        numbers += [each.view(1, -1, *(1,) * rank) for each in (stages.gain, stages.shift) if each is not None]
        self.numbers = nn.ParameterList(nn.Parameter(each, requires_grad=False) for each in numbers)
        self.kernels = nn.ParameterList(nn.Parameter(each, requires_grad=False) for each in kernels)

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C_in, *sizes)`` to ``(N, C_out, *positions)``; of a dense layer any leading axes."""
        settings, shape = self.settings, input.shape
        if not self.correlation.kernel:
            input = input.reshape(-1, shape[-1])
        single = all(size == 1 for size in self.correlation.outputs(input.shape[2:]))
        if settings.norm == "instance" and single:  # a value on its own has no statistics
            settings = NodeSettings(**{**vars(settings), "norm": "none"})
        output: Tensor = layer(input, list(self.kernels), list(self.numbers), settings.to_json())
        if settings.norm == "other":
            output = self.norm(output)
            if settings.gain == "after":
                output = output * self.numbers[-1]
        return output if self.correlation.kernel else output.view(*shape[:-1], -1)


def kernels_of_blocks(weight: Tensor, correlation: Correlation) -> tuple[list[Tensor], int]:
    """The filters as 1x1 kernels on what blocks of their offsets see, ``(C_out, sets * offsets * channels, 1, ...)``.

    Where nothing happens to a patch before the product there is one kernel, the filters.

    Returns:
        The kernels, and how many offsets are in a block.
    """
    if not correlation.kernel or (correlation.robust is None and not correlation.channelwise):
        return [weight], 1
    channels, filters = weight.shape[1], len(weight) // correlation.groups
    taps = weight.flatten(2)
    taps = taps.unsqueeze(2) if correlation.channelwise else taps.unsqueeze(1)  # (C_out, sets, channels, offsets)
    block = max(1, _LARGE * max(channels, filters) // channels)
    parts = (part.transpose(2, 3).flatten(1) for part in taps.split(block, 3))
    return [part[(..., *(None,) * len(correlation.kernel))].contiguous() for part in parts], block
