"""The conversion itself: which layers are replaced, by what, and what goes with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn

from xcnorm.conversion.report import Change, attach_report
from xcnorm.conversion.tree import ACTIVATIONS, NORMS, Slot, list_slots, runs_in_order, successors
from xcnorm.errors import unknown_name
from xcnorm.nn import (
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

Skip = str | type[nn.Module] | Callable[[str, nn.Module], bool]

_XCNORM: dict[type[nn.Module], tuple[type[XCNormLayer], type[XCNormLayer]]] = {
    nn.Conv1d: (XCNormConv1d, RXCNormConv1d),
    nn.Conv2d: (XCNormConv2d, RXCNormConv2d),
    nn.Conv3d: (XCNormConv3d, RXCNormConv3d),
    nn.Linear: (XCNormLinear, RXCNormLinear),
}
_LAYERS = ("xcnorm", "r_xcnorm")
_DENSE = ("linear", "xcnorm")

_POOLS = (
    nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d,
)  # fmt: skip
_SHORTCUTS = ("downsample", "shortcut", "projection")


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
        >>> from xcnorm import conversion_report
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
    attach_report(conversion.root, tuple(changes[name] for name in conversion.slots if name in changes))
    return conversion.root


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
        self.last_activation: Slot | None = None
        self.slots = {slot.name: slot for slot in list_slots(model)}
        self.next = successors(self.slots)
        self.per_image = resolve(options, robust=robust, dense=False).norm == "instance"
        modules = [slot.module for slot in self.slots.values()]
        weighted = [m for m in modules if type(m) in _XCNORM or isinstance(m, XCNormLayer)]
        self.first = weighted[0] if weighted else None
        self.classifier = _classifier(weighted)

    def candidates(self, dense: bool, skips: list[Skip]) -> Iterator[Slot]:
        """Slots to convert; the others with weights are noted as kept, with the reason."""
        for slot in list(self.slots.values()):
            if (reason := self._reason_to_keep(slot, dense, skips)) is not None:
                self._note(slot, slot.module, "kept", reason)
            elif type(slot.module) in _XCNORM:
                yield slot

    def _reason_to_keep(self, slot: Slot, dense: bool, skips: list[Skip]) -> str | None:
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

    def replace(self, slot: Slot) -> None:
        """Put the XCNorm layer in place, and take out the norm and activation that directly follow."""
        norm = self._follower(slot, NORMS)
        activation = self._follower(norm or slot, ACTIVATIONS)
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

    def _follower(self, slot: Slot, kinds: tuple[type[nn.Module], ...]) -> Slot | None:
        follower = self.next.get(slot.name)
        return follower if follower is not None and isinstance(follower.module, kinds) else None

    def _next_module(self, slot: Slot) -> nn.Module | None:
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
            if isinstance(slot.module, (*NORMS, nn.LayerNorm, *ACTIVATIONS)):
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

    def _remove(self, slot: Slot, reason: str) -> None:
        identity = nn.Identity()
        self._put(slot, identity)
        self._note(slot, identity, "removed", reason)

    def _put(self, slot: Slot, module: nn.Module) -> None:
        if slot.parent is None:
            self.root = module
        else:
            setattr(slot.parent, slot.attribute, module)

    def _note(self, slot: Slot, now: nn.Module, action: str, reason: str) -> None:
        before, after = type(slot.module).__name__, type(now).__name__
        self.changes[slot.name] = Change(slot.name, before, after, action, reason)


def _contains_pool(module: nn.Module | None) -> bool:
    """Whether a module averages over positions, itself or, as squeeze and excitation does, inside."""
    return module is not None and not runs_in_order(module) and any(isinstance(m, _POOLS) for m in module.modules())


def _classifier(weighted: list[nn.Module]) -> nn.Module | None:
    """The last layer with weights, if it is linear: a Linear, or in a fully convolutional network a 1x1 convolution."""
    if not weighted:
        return None
    last = weighted[-1]
    if isinstance(last, nn.modules.conv._ConvNd) and (len(weighted) == 1 or any(k > 1 for k in last.kernel_size)):
        linear = [module for module in weighted if isinstance(module, nn.Linear)]
        return linear[-1] if linear else None
    return last


def _matches(skip: Skip, slot: Slot) -> bool:
    if isinstance(skip, str):
        return fnmatchcase(slot.name, skip)
    if isinstance(skip, type):
        return isinstance(slot.module, skip)
    return skip(slot.name, slot.module)


def _pads_with_zeros(module: nn.modules.conv._ConvNd) -> bool:
    return module.padding_mode == "zeros" and any(module._reversed_padding_repeated_twice)
