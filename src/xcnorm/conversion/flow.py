"""The flow of a model: what runs after what, found by tracing its forward, or else from the order of its modules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.modules.conv import _ConvNd

from xcnorm.conversion.probe import see_single_position
from xcnorm.conversion.tracing import Trace, trace_model
from xcnorm.conversion.tree import ACTIVATIONS, NORM_CLASSES, Slot, contains_pool, successors

_WEIGHTED = (torch.conv1d, torch.conv2d, torch.conv3d, F.linear)
_SINGLE = (
    nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d,
    nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d,
)  # fmt: skip
_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
_PASSING = (nn.Identity, nn.Flatten, *_DROPOUTS)
# What a mean over positions passes through: of a map whose mean is zero it makes nothing else.
_LINEAR = (
    "flatten", "view", "reshape", "contiguous", "permute", "transpose", "dropout", "stochastic_depth",
    "add", "iadd", "sub", "mul", "imul", "cat",
)  # fmt: skip
_ENLARGING = ("interpolate", "upsample", "expand", "expand_as", "repeat", "pad")
_RECTIFYING = ("relu", "relu6", "leaky_relu", "gelu", "silu", "elu", "mish", "hardswish", "hardtanh", "tanh", "sigmoid")

T = TypeVar("T")


@dataclass
class Flow:
    """What is known of a model's forward.

    Attributes:
        after: What alone takes the output of a layer, and nothing else, by the layer's name.
        averaged: Names of layers whose output is averaged over positions, before anything that is not linear.
        pooled: Names of layers that see maps of a single position.
        functions: The activation that follows a layer as a plain function, by the layer's name.
        borrowed: Names of modules whose parameters are used in a convolution that is no layer.
        untraced: Names of modules whose forward could not be traced, with the reason.
    """

    after: dict[str, Slot] = field(default_factory=dict)
    averaged: set[str] = field(default_factory=set)
    pooled: set[str] = field(default_factory=set)
    functions: dict[str, str] = field(default_factory=dict)
    borrowed: set[str] = field(default_factory=set)
    untraced: dict[str, str] = field(default_factory=dict)


def find_flow(slots: dict[str, Slot], batch: Tensor | None = None) -> Flow:
    """Trace a model. What cannot be traced is known as far as Sequentials and known blocks tell.

    Args:
        slots: Every place of the model.
        batch: Images that show where what cannot be traced sees maps of a single position.
    """
    traces, untraced = trace_model(slots[""].module)
    calls = _Calls(traces, slots)
    flow = Flow(untraced=untraced, borrowed=set(calls.borrowed()))
    fallback = successors(slots)
    shared = _hanging_twice(slots)
    # Also where all is traced: a batch that does not fit the model is refused before anything is changed.
    probed = {} if batch is None else see_single_position(slots[""].module, batch)
    for name, slot in slots.items():
        if mine := calls.of(slot.module):
            after = _common([calls.sole_user(node) for node in mine])
            # What cannot be traced might call a module that hangs in several places, too.
            hidden = after is not None and bool(untraced) and id(after.module) in shared
            if after is not None and not hidden and len(calls.of(after.module)) == len(mine):
                flow.after[name] = after
            if any(calls.is_averaged(node) for node in mine):
                flow.averaged.add(name)
            if all(calls.sees_single_position(node) for node in mine):
                flow.pooled.add(name)
            if (function := _common([_function_after(node) for node in mine])) is not None:
                flow.functions[name] = function
            continue
        if name in fallback:
            flow.after[name] = fallback[name]
            if contains_pool(fallback[name].module):
                flow.averaged.add(name)
        convolution = isinstance(slot.module, _ConvNd) and all(size == 1 for size in slot.module.kernel_size)
        if convolution and probed.get(id(slot.module), contains_pool(slot.parent)):
            flow.pooled.add(name)
    return flow


class _Calls:
    """The calls of all traces, by module."""

    def __init__(self, traces: list[Trace], slots: dict[str, Slot]) -> None:
        self.traces = traces
        self.slots = slots
        self.slot_of: dict[fx.Node, Slot] = {}
        self.nodes: dict[int, list[fx.Node]] = {}
        for trace in traces:
            for node in trace.graph.nodes:
                if node.op == "call_module":
                    slot = slots[trace.path(node.target)]
                    self.slot_of[node] = slot
                    self.nodes.setdefault(id(slot.module), []).append(node)
        self.single = set(self._single())

    def of(self, module: nn.Module) -> list[fx.Node]:
        """Where a module is called."""
        return self.nodes.get(id(module), [])

    def sole_user(self, node: fx.Node) -> Slot | None:
        """The layer that alone takes what a call gives; identities are passed over."""
        while len(node.users) == 1:
            (user,) = node.users
            slot = self.slot_of.get(user)
            if slot is None or user.all_input_nodes != [node]:
                return None
            if not isinstance(slot.module, nn.Identity):
                return slot
            node = user
        return None

    def is_averaged(self, node: fx.Node) -> bool:
        """Whether what a call gives is averaged over positions, also after sums, whatever else is done with it."""
        for user in node.users:
            module = self.slot_of[user].module if user in self.slot_of else None
            if contains_pool(module) or (module is None and (_name(user) == "mean" or "avg_pool" in _name(user))):
                return True
            passes = isinstance(module, _PASSING) or (module is None and _name(user) in _LINEAR)
            if passes and self.is_averaged(user):
                return True
        return False

    def sees_single_position(self, node: fx.Node) -> bool:
        """Whether a call is given a map of a single position."""
        inputs = node.all_input_nodes
        return bool(inputs) and inputs[0] in self.single

    def _single(self) -> Iterator[fx.Node]:
        """The calls that give maps of a single position: global pools, and what is made of their results alone."""
        found: set[fx.Node] = set()
        for trace in self.traces:
            for node in trace.graph.nodes:
                module = self.slot_of[node].module if node in self.slot_of else None
                if self._pools_to_one(node, module) or self._stays_single(node, module, found):
                    found.add(node)
                    yield node

    def _pools_to_one(self, node: fx.Node, module: nn.Module | None) -> bool:
        if isinstance(module, _SINGLE):
            return _is_one(module.output_size)
        if module is not None or node.op not in ("call_function", "call_method"):
            return False
        if _name(node).startswith("adaptive_"):
            return _is_one(node.args[1] if len(node.args) > 1 else node.kwargs.get("output_size"))
        return _name(node) == "mean" and (node.kwargs.get("keepdim") is True or True in node.args[2:])

    def _stays_single(self, node: fx.Node, module: nn.Module | None, found: set[fx.Node]) -> bool:
        inputs = node.all_input_nodes
        if not inputs or not all(each in found for each in inputs):
            return False
        if module is not None:
            return isinstance(module, (_ConvNd, *NORM_CLASSES, *ACTIVATIONS, *_DROPOUTS, nn.Identity))
        return _name(node) not in _ENLARGING

    def borrowed(self) -> Iterator[str]:
        """Names of modules whose parameters go into a convolution that the model calls as a function.

        Where such a parameter was changed on the way, it is no longer known whose it was: then layers of the module
        with that call that are never called count as borrowed.
        """
        layers = [slot for slot in self.slots.values() if isinstance(slot.module, _ConvNd | nn.Linear)]
        never = [slot.name for slot in layers if not self.of(slot.module)]
        for trace in self.traces:
            for node in trace.graph.nodes:
                if node.op == "get_attr":
                    owner = self.slots.get(trace.path(node.target.rpartition(".")[0]))
                    if owner in layers or (owner and any(user.target in _WEIGHTED for user in node.users)):
                        yield owner.name
                elif node.op == "call_function" and node.target in _WEIGHTED:
                    frames = list(node.meta.get("nn_module_stack", {}).values())
                    where = trace.path(frames[-1][0] if frames else "")
                    yield from (name for name in never if name.rpartition(".")[0] == where)


def _function_after(node: fx.Node) -> str | None:
    users = list(node.users)
    if len(users) == 1 and users[0].op in ("call_function", "call_method") and _name(users[0]) in _RECTIFYING:
        return _name(users[0])
    return None


def _name(node: fx.Node) -> str:
    """Of the function or method that a call is of, without the mark of one that works in place."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return name.rstrip("_")


def _is_one(size: object) -> bool:
    return size == 1 or (isinstance(size, tuple | list) and all(each == 1 for each in size))


def _common(values: list[T | None]) -> T | None:
    return values[0] if all(value == values[0] for value in values) else None


def _hanging_twice(slots: dict[str, Slot]) -> set[int]:
    seen: set[int] = set()
    return {id(slot.module) for slot in slots.values() if id(slot.module) in seen or seen.add(id(slot.module))}  # type: ignore[func-returns-value]
