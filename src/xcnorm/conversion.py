"""Any torch model to the same model on XCNorm layers, with a report of what was done and why."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from xcnorm.errors import unknown_name
from xcnorm.nn import (
    InstanceNorm,
    RXCNormConv1d,
    RXCNormConv2d,
    RXCNormConv3d,
    RXCNormLinear,
    XCNormConv1d,
    XCNormConv2d,
    XCNormConv3d,
    XCNormLayer,
    XCNormLinear,
)
from xcnorm.nn.layer import SMALLEST_PATCH
from xcnorm.nn.options import rectify_of_first, resolve

__all__ = ["Change", "ConversionReport", "conversion_report", "convert"]

Skip = str | type[nn.Module] | Callable[[str, nn.Module], bool]

_XCNORM: dict[type[nn.Module], tuple[type[XCNormLayer], type[XCNormLayer]]] = {
    nn.Conv1d: (XCNormConv1d, RXCNormConv1d),
    nn.Conv2d: (XCNormConv2d, RXCNormConv2d),
    nn.Conv3d: (XCNormConv3d, RXCNormConv3d),
    nn.Linear: (XCNormLinear, RXCNormLinear),
}
_LAYERS = ("xcnorm", "r_xcnorm")
_DENSE = ("linear", "xcnorm")

_NORMS = (_NormBase, nn.GroupNorm, InstanceNorm)
_ACTIVATIONS = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.RReLU, nn.ELU, nn.CELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish,
    nn.Hardswish, nn.Hardtanh, nn.Softplus, nn.Tanh, nn.Sigmoid,
)  # fmt: skip
_POOLS = (
    nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d,
)  # fmt: skip

# In what order the children of well-known blocks run, up to the next sum. An activation that such a block runs more
# than once, as torchvision's blocks do after their sum, is not listed: taking it out would take it out everywhere.
_KNOWN_BLOCKS: dict[str, tuple[tuple[str, ...], ...]] = {
    "BasicBlock": (("conv1", "bn1", "act1"), ("conv2", "bn2")),
    "Bottleneck": (("conv1", "bn1", "act1"), ("conv2", "bn2", "act2"), ("conv3", "bn3")),
    "ResNet": (("conv1", "bn1", "relu"), ("conv1", "bn1", "act1")),
    "_DenseLayer": (("conv1", "norm2", "relu2"),),
}
_SHORTCUTS = ("downsample", "shortcut", "projection")

_REPORT = "_xcnorm_conversion"


@dataclass(frozen=True)
class Change:
    """What happened to one layer of a model.

    Attributes:
        name: Its path in the model.
        before: Class it had.
        after: Class that is there now.
        action: ``"converted"``, ``"removed"`` or ``"kept"``.
        reason: Why, in words.
    """

    name: str
    before: str
    after: str
    action: str
    reason: str


@dataclass(frozen=True)
class ConversionReport:
    """Every layer of a converted model with what was done and why; ``print`` it."""

    changes: tuple[Change, ...]

    def count(self, action: str) -> int:
        """How many layers were ``"converted"``, ``"removed"`` or ``"kept"``."""
        return sum(change.action == action for change in self.changes)

    def __str__(self) -> str:
        rows = [("layer", "was", "is", "action", "why")]
        rows += [(c.name or "(model)", c.before, c.after, c.action, c.reason) for c in self.changes]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = ["  ".join([*(t.ljust(w) for t, w in zip(row, widths, strict=False)), row[4]]) for row in rows]
        summary = ", ".join(f"{self.count(action)} {action}" for action in ("converted", "removed", "kept"))
        return "\n".join([*lines, summary])


def convert(
    model: nn.Module,
    layer: str = "r_xcnorm",
    skip: Skip | Iterable[Skip] = (),
    *,
    dense: str = "linear",
    rectify_first: str | None = None,
    padding_mode: str = "replicate",
    **options: Any,
) -> nn.Module:
    """Put XCNorm layers in place of a model's convolutions. The model is changed and returned; retrain it.

    A convolution's weights become the initial filters of the layer in its place. The norm and the activation that
    directly follow it, in a Sequential or a known block (torchvision's and timm's ResNets, DenseNets), are replaced by
    identities: the layer brings its own. Kept as they are:

    - the classifier, which is the last linear layer, or a last 1x1 convolution;
    - 1x1 convolutions on shortcuts, so that the shortcut stays linear, and on pooled values;
    - convolutions whose patch has fewer than 16 values;
    - with ``norm="instance"``, the activation before an average pool and after the last converted convolution: the mean
      of a map normalised per image is zero. A convolution that is averaged without any activation gets ``norm="none"``.

    `conversion_report` lists every decision.

    Args:
        model: Any module tree.
        layer: ``"xcnorm"`` or ``"r_xcnorm"``.
        skip: Layers to leave alone: names with wildcards (``"layer4.*"``), classes, or functions of name and module;
            one or several.
        dense: Hidden linear layers stay ``"linear"`` or become ``"xcnorm"`` too.
        rectify_first: ``rectify`` of the first layer, if it is converted. Left out, it is ``"abs"``, which measured
            best, unless ``preset="paper"`` or ``rectify`` is given.
        padding_mode: Padding of layers that padded with zeros; ``"zeros"`` leaves them.
        **options: Options of the layers; see `xcnorm.nn.RobustOptions`.

    Returns:
        The model; or the new layer, if the model was a single convolution.

    Raises:
        ValueError: An argument or an option's value is unknown, or nothing could be converted.

    Example:
        >>> model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(),
        ...                       nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
        >>> model = convert(model, layer="xcnorm")
        >>> print(conversion_report(model))
        layer  was          is            action     why
        0      Conv2d       XCNormConv2d  converted  weights kept as initial filters; bias dropped; rectify='abs'
        1      BatchNorm2d  Identity      removed    follows 0, which normalises its own channels
        2      ReLU         Identity      removed    follows 0, which rectifies on its own
        3      Conv2d       XCNormConv2d  converted  weights kept as initial filters; bias dropped
        4      ReLU         ReLU          kept       the mean of a map normalised per image is zero
        5      AdaptiveAvgPool2d  ...
        6      Flatten ...
        7      Linear       Linear        kept       the classifier
        2 converted, 2 removed, 4 kept
    """
    if layer not in _LAYERS:
        raise ValueError(unknown_name("layer", layer, _LAYERS))
    if dense not in _DENSE:
        raise ValueError(unknown_name("dense", dense, _DENSE))
    skips = [skip] if isinstance(skip, str | type) or callable(skip) else list(skip)
    rectify_first = rectify_of_first(rectify_first, options)
    conversion = _Conversion(model, layer == "r_xcnorm", rectify_first, padding_mode, options)
    for slot in conversion.candidates(dense == "xcnorm", skips):
        conversion.replace(slot)
    conversion.restore_last_activation()
    conversion.note_the_rest()
    if not conversion.converted:
        raise ValueError(
            "nothing to convert: the model has no convolution that is neither skipped nor too small; "
            "see dense='xcnorm' for linear layers"
        )
    changes = conversion.changes
    conversion.root.__dict__[_REPORT] = tuple(changes[name] for name in conversion.slots if name in changes)
    return conversion.root


def conversion_report(model: nn.Module) -> ConversionReport:
    """What `convert` did to a model.

    Args:
        model: A model that `convert` returned.

    Raises:
        ValueError: The model was never converted.
    """
    changes = model.__dict__.get(_REPORT)
    if changes is None:
        raise ValueError("this model was not converted; call xcnorm.convert(model) first")
    return ConversionReport(changes)


class _Slot(NamedTuple):
    """A place in the tree: where a module hangs, and what hangs there."""

    name: str
    parent: nn.Module | None
    attribute: str
    module: nn.Module


class _Conversion:
    """One conversion under way."""

    def __init__(
        self, model: nn.Module, robust: bool, rectify_first: str | None, padding_mode: str, options: dict[str, Any]
    ) -> None:
        self.root = model
        self.robust = robust
        self.rectify_first = rectify_first
        self.padding_mode = padding_mode
        self.options = options
        self.changes: dict[str, Change] = {}
        self.converted: dict[int, XCNormLayer] = {}
        self.last_activation: _Slot | None = None
        self.slots = {slot.name: slot for slot in _slots(model)}
        self.next = _successors(self.slots)
        self.per_image = resolve(options, robust=robust, dense=False).norm == "instance"
        modules = [slot.module for slot in self.slots.values()]
        weighted = [m for m in modules if type(m) in _XCNORM or isinstance(m, XCNormLayer)]
        self.first = weighted[0] if weighted else None
        self.classifier = _classifier(weighted)

    def candidates(self, dense: bool, skips: list[Skip]) -> Iterator[_Slot]:
        """Slots to convert; the others with weights are noted as kept, with the reason."""
        for slot in list(self.slots.values()):
            if (reason := self._reason_to_keep(slot, dense, skips)) is not None:
                self._note(slot, slot.module, "kept", reason)
            elif type(slot.module) in _XCNORM:
                yield slot

    def _reason_to_keep(self, slot: _Slot, dense: bool, skips: list[Skip]) -> str | None:
        module = slot.module
        if isinstance(module, XCNormLayer):
            return "already an XCNorm layer"
        if type(module) not in _XCNORM:
            if isinstance(module, nn.modules.conv._ConvNd | nn.Linear):
                return f"{type(module).__name__} has no XCNorm form"
            return None
        if any(_matches(skip, slot) for skip in skips):
            return "skipped by request"
        if module is self.classifier:
            return "the classifier"
        if isinstance(module, nn.Linear):
            return None if dense else "linear layers were not asked for (dense='linear')"
        assert isinstance(module, nn.modules.conv._ConvNd)
        if any(part in _SHORTCUTS for part in slot.name.split(".")) and all(k == 1 for k in module.kernel_size):
            return "a shortcut, which stays linear"
        if all(k == 1 for k in module.kernel_size) and _contains_pool(slot.parent):
            return "works on pooled values, as in squeeze and excitation"
        if (alpha := module.weight[0].numel()) < SMALLEST_PATCH:
            return f"a patch has only {alpha} values, fewer than {SMALLEST_PATCH}"
        return None

    def replace(self, slot: _Slot) -> None:
        """Put the XCNorm layer in place, and take out the norm and activation that directly follow."""
        norm = self._follower(slot, _NORMS)
        activation = self._follower(norm or slot, _ACTIVATIONS)
        pooled = self.per_image and _contains_pool(self._next_module(activation or norm or slot))
        # A module that hangs in several places is converted once and shared again.
        if id(slot.module) not in self.converted:
            # The mean of a map normalised per image is zero, so what is averaged is rectified or not normalised.
            bare = pooled and activation is None
            self.converted[id(slot.module)] = self._make(slot.module, {"norm": "none"} if bare else {})
        layer = self.converted[id(slot.module)]
        self._put(slot, layer)
        self._note(slot, layer, "converted", "; ".join(self._remarks(slot.module, layer)))
        if norm is not None:
            self._remove(norm, f"follows {slot.name}, which normalises its own channels")
        if activation is not None and pooled:
            self._note(activation, activation.module, "kept", "the mean of a map normalised per image is zero")
        elif activation is not None:
            self._remove(activation, f"follows {slot.name}, which rectifies on its own")
        if not isinstance(slot.module, nn.Linear):
            self.last_activation = activation

    def _follower(self, slot: _Slot, kinds: tuple[type[nn.Module], ...]) -> _Slot | None:
        follower = self.next.get(slot.name)
        return follower if follower is not None and isinstance(follower.module, kinds) else None

    def _next_module(self, slot: _Slot) -> nn.Module | None:
        return self.next[slot.name].module if slot.name in self.next else None

    def restore_last_activation(self) -> None:
        """Give the last converted convolution its activation back: a global pool is likely to come."""
        if self.per_image and (slot := self.last_activation) is not None:
            self._put(slot, slot.module)
            self._note(slot, slot.module, "kept", "the mean of a map normalised per image is zero")

    def note_the_rest(self) -> None:
        """Say of every other layer why it is as it was."""
        ours = [name + "." for name, slot in self.slots.items() if isinstance(slot.module, XCNormLayer)]
        for slot in self.slots.values():
            inside = slot.name.startswith(tuple(ours))
            if slot.name in self.changes or inside or next(slot.module.children(), None) is not None:
                continue
            if isinstance(slot.module, (*_NORMS, nn.LayerNorm, *_ACTIVATIONS)):
                self._note(slot, slot.module, "kept", "not known to follow a converted layer directly")
            else:
                self._note(slot, slot.module, "kept", "nothing to convert")

    def _make(self, module: nn.Module, overrides: dict[str, Any]) -> XCNormLayer:
        assert isinstance(module, nn.modules.conv._ConvNd | nn.Linear)
        options = {**self.options, **overrides}
        if module is self.first and self.rectify_first is not None:
            options["rectify"] = self.rectify_first
        if module is not self.first:
            options.pop("channelwise", None)  # an option of the layer that sees the colours
        where: dict[str, Any] = {"device": module.weight.device, "dtype": module.weight.dtype}
        cls: Any = _XCNORM[type(module)][self.robust]
        layer: XCNormLayer
        if isinstance(module, nn.Linear):
            if options.get("norm") == "instance":
                options["norm"] = "batch"  # one value per channel and sample has no instance statistics
            layer = cls(module.in_features, module.out_features, **where, **options)
        else:
            mode = self.padding_mode if _pads_with_zeros(module) else module.padding_mode
            layer = cls(
                module.in_channels, module.out_channels, module.kernel_size, module.stride, module.padding,
                module.dilation, module.groups, padding_mode=mode, **where, **options,
            )  # fmt: skip
        with torch.no_grad():
            layer.weight.copy_(module.weight)
        layer.weight.requires_grad_(module.weight.requires_grad)
        return layer.train(module.training)

    def _remarks(self, module: nn.Module, layer: XCNormLayer) -> Iterator[str]:
        yield "weights kept as initial filters"
        if getattr(module, "bias", None) is not None:
            yield "bias dropped"
        if isinstance(module, nn.modules.conv._ConvNd) and layer.correlation.padding_mode != module.padding_mode:
            yield f"padding_mode={layer.correlation.padding_mode!r}"
        if self.rectify_first is not None and module is self.first:
            yield f"rectify={self.rectify_first!r}"
        if layer.options.norm == "none" != self.options.get("norm"):
            yield "norm='none', as it is averaged without an activation"

    def _remove(self, slot: _Slot, reason: str) -> None:
        identity = nn.Identity()
        self._put(slot, identity)
        self._note(slot, identity, "removed", reason)

    def _put(self, slot: _Slot, module: nn.Module) -> None:
        if slot.parent is None:
            self.root = module
        else:
            setattr(slot.parent, slot.attribute, module)

    def _note(self, slot: _Slot, now: nn.Module, action: str, reason: str) -> None:
        before, after = type(slot.module).__name__, type(now).__name__
        self.changes[slot.name] = Change(slot.name, before, after, action, reason)


def _slots(model: nn.Module) -> Iterator[_Slot]:
    """Every place of the tree in order of registration, shared modules as often as they hang somewhere."""
    modules = dict(model.named_modules(remove_duplicate=False))
    for name, module in modules.items():
        parent, _, attribute = name.rpartition(".")
        yield _Slot(name, modules[parent] if name else None, attribute, module)


def _successors(slots: dict[str, _Slot]) -> dict[str, _Slot]:
    """Which slot runs directly after which, as far as Sequentials and known blocks tell."""
    following: dict[str, _Slot] = {}
    for slot in slots.values():
        if _in_order(slot.module) and not _in_order(slot.parent):
            runs = [list(_run(slot, slots))]
        else:
            chains = _KNOWN_BLOCKS.get(type(slot.module).__name__, ())
            paths = [[f"{slot.name}.{child}".lstrip(".") for child in chain] for chain in chains]
            runs = [[slots[path] for path in chain if path in slots] for chain in paths]
            runs = [run for run in runs if _plausible(run, list(slot.module._modules))]
        for run in runs:
            following.update({before.name: after for before, after in itertools.pairwise(run)})
    return following


def _run(sequential: _Slot, slots: dict[str, _Slot]) -> Iterator[_Slot]:
    """What a Sequential runs, one after the other; Sequentials inside it are opened up, identities passed over."""
    for attribute in sequential.module._modules:
        slot = slots[f"{sequential.name}.{attribute}".lstrip(".")]
        if _in_order(slot.module):
            yield from _run(slot, slots)
        elif not isinstance(slot.module, nn.Identity):
            yield slot


def _in_order(module: nn.Module | None) -> bool:
    """Whether a module runs its children one after the other; a subclass may have a forward of its own."""
    return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward


def _plausible(run: list[_Slot], registered: list[str]) -> bool:
    """Whether a chain fits the block that bears the name: pre-activation blocks bear it too, and run norms first."""
    places = [registered.index(slot.attribute) for slot in run]
    if len(run) < 2 or places != sorted(places):
        return False
    channels = getattr(run[1].module, "num_features", None)
    return channels is None or channels == getattr(run[0].module, "out_channels", None)


def _contains_pool(module: nn.Module | None) -> bool:
    """Whether a module averages over positions, itself or, as squeeze and excitation does, inside."""
    return module is not None and not _in_order(module) and any(isinstance(m, _POOLS) for m in module.modules())


def _classifier(weighted: list[nn.Module]) -> nn.Module | None:
    """The last layer with weights, if it is linear: a Linear, or in a fully convolutional network a 1x1 convolution."""
    if not weighted:
        return None
    last = weighted[-1]
    if isinstance(last, nn.modules.conv._ConvNd) and (len(weighted) == 1 or any(k > 1 for k in last.kernel_size)):
        linear = [module for module in weighted if isinstance(module, nn.Linear)]
        return linear[-1] if linear else None
    return last


def _matches(skip: Skip, slot: _Slot) -> bool:
    if isinstance(skip, str):
        return fnmatchcase(slot.name, skip)
    if isinstance(skip, type):
        return isinstance(slot.module, skip)
    return skip(slot.name, slot.module)


def _pads_with_zeros(module: nn.modules.conv._ConvNd) -> bool:
    return module.padding_mode == "zeros" and any(module._reversed_padding_repeated_twice)
