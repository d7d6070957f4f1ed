"""Traces: what a model's forward calls, as torch.fx records it, of as much of the model as can be traced."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import fx, nn
from torch.nn.modules.conv import _ConvNd

from xcnorm.conversion.tree import ACTIVATIONS, NORM_CLASSES, POOLS
from xcnorm.nn import Norm, Relative, XCNormLayer

_LEAVES = (*NORM_CLASSES, *ACTIVATIONS, *POOLS, _ConvNd, nn.Linear, Norm, Relative, XCNormLayer)
_LISTS = (nn.ModuleList, nn.ModuleDict)


@dataclass(frozen=True)
class Trace:
    """What the forward of one module calls, with that of the modules inside.

    Attributes:
        name: The module's path in the model.
        graph: The calls; their targets are paths inside the module.
        entered: The ids of the modules whose own forward is part of it.
    """

    name: str
    graph: fx.Graph
    entered: frozenset[int]

    def path(self, target: str) -> str:
        """The path in the model of a path inside the module."""
        return f"{self.name}.{target}".strip(".")


def trace_model(model: nn.Module) -> tuple[list[Trace], dict[str, str]]:
    """Trace as much of a model as can be traced, in evaluation mode and without touching it.

    A module that cannot be traced, for its forward looks at values perhaps, counts as one step of the module around it,
    and what is inside is traced by itself; so does one with hooks, which may do anything.

    Returns:
        The traces, and the names of the modules that could not be traced, with the reason.
    """
    try:  # a twin with the same parameters, as a forward may leave traces of its own in the module
        twin = copy.deepcopy(model, {id(parameter): parameter for parameter in model.parameters()})
    except Exception as error:
        return [], {"": _describe(error)}
    for module in twin.modules():
        module.training = False  # no layers dropped at random
    tracing = _Tracing()
    with torch.random.fork_rng(devices=[]):
        return list(tracing.visit("", twin)), tracing.untraced


class _Tracing:
    """A model under way of being traced."""

    def __init__(self) -> None:
        self.opaque: set[int] = set()
        self.untraced: dict[str, str] = {}

    def visit(self, name: str, module: nn.Module) -> Iterator[Trace]:
        """The trace of a module and of what is inside but not part of it."""
        if isinstance(module, _LEAVES) or next(module.children(), None) is None:
            return
        below: list[Trace] = []
        try:
            trace = self._trace(name, module)
        except Exception:
            below = [inner for child in self._children(name, module) for inner in self.visit(*child)]
            try:
                trace = self._trace(name, module)
            except Exception as error:
                self.untraced[name] = _describe(error)
                self.opaque.add(id(module))
                yield from below
                return
        yield trace
        if below:
            yield from (inner for inner in below if inner.name != name and not self._is_part(inner, trace, module))
        else:
            yield from self._rest(name, module, trace)

    def _trace(self, name: str, module: nn.Module) -> Trace:
        parameters = list(inspect.signature(module.forward).parameters.values())[1:]
        defaults = {each.name: each.default for each in parameters if each.default is not inspect.Parameter.empty}
        tracer = _Tracer(self.opaque)
        graph = tracer.trace(module, concrete_args=defaults or None)
        return Trace(name, graph, frozenset({id(module), *tracer.entered}))

    def _is_part(self, inner: Trace, outer: Trace, module: nn.Module) -> bool:
        path = inner.name[len(outer.name) :].strip(".")
        return id(module.get_submodule(path)) in outer.entered

    def _rest(self, name: str, module: nn.Module, trace: Trace) -> Iterator[Trace]:
        """Traces of modules that a trace passed over or never called."""
        for path, child in self._children(name, module):
            if id(child) in trace.entered:
                yield from self._rest(path, child, trace)
            elif id(child) not in self.opaque and not _is_torchs(child):
                yield from self.visit(path, child)

    def _children(self, name: str, module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
        for attribute, child in module.named_children():
            path = f"{name}.{attribute}".strip(".")
            if isinstance(child, _LISTS):
                yield from self._children(path, child)
            else:
                yield path, child


class _Tracer(fx.Tracer):
    """Torch's, which stops at layers, at hooks and at what is known not to be traceable."""

    def __init__(self, opaque: set[int]) -> None:
        super().__init__()
        self.opaque = opaque
        self.entered: set[int] = set()

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        if id(m) in self.opaque or isinstance(m, _LEAVES) or _has_hooks(m) or _is_torchs(m):
            return True
        self.entered.add(id(m))
        return False


def _is_torchs(module: nn.Module) -> bool:
    return type(module).__module__.startswith(("torch.nn.", "torch.ao.nn.")) and not isinstance(module, nn.Sequential)


def _has_hooks(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no message'}"
