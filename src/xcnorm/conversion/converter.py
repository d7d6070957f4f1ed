"""The conversion itself: which layers are replaced, by what, and what goes with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn

from xcnorm.conversion.policy import Policy, Skip, first_stage
from xcnorm.conversion.reasons import contains_pool, find_classifier, reason_to_keep
from xcnorm.conversion.report import Change, attach_report
from xcnorm.conversion.tree import ACTIVATIONS, NORM_CLASSES, Slot, list_slots, successors
from xcnorm.errors import unknown_name
from xcnorm.nn import FORMS, NORMS, LayerForm, Relative, XCNormLayer, find_form
from xcnorm.nn.options import rectify_of_first, resolve

_DENSE = ("linear", "xcnorm")
_WEIGHTED = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)


def convert(
    model: nn.Module,
    layer: str = "r_xcnorm",
    skip: Skip | Iterable[Skip] = (),
    *,
    policy: str = "all_but_classifier",
    filter_fn: Callable[[nn.Module, str], bool] | None = None,
    min_fan_in: int | None = None,
    dense: str = "linear",
    rectify_first: str | None = None,
    padding_mode: str | None = None,
    **options: Any,
) -> nn.Module:
    """Put XCNorm layers or relatives in place of a model's convolutions. The model is changed and returned; retrain it.

    A convolution's weights become the initial filters of the layer in its place. The norm and the activation that
    directly follow it, in a Sequential or a known block (torchvision's and timm's ResNets, DenseNets), are replaced by
    identities: the layer brings its own. Of relatives, which are for images alone, each says whether they stay. Kept as
    they are:

    - the classifier, which is the last linear layer, or a last 1x1 convolution;
    - 1x1 convolutions on shortcuts, so that the shortcut stays linear, and on pooled values;
    - convolutions whose patch has fewer than 16 values, which relatives may have;
    - with ``norm="instance"``, the activation before an average pool and after the last converted convolution: the mean
      of a map normalised per image is zero. A convolution that is averaged without any activation gets ``norm="none"``.

    `conversion_report` lists every decision.

    Args:
        model: Any module tree.
        layer: ``"xcnorm"``, ``"r_xcnorm"`` or another of `xcnorm.nn.FORMS`.
        skip: Layers to leave alone: names with wildcards (``"layer4.*"``), classes, or functions of name and module;
            one or several.
        policy: ``"all_but_classifier"``; ``"first_stage"``, the layers before the second stage: where the resolution is
            reduced again after a convolution that did not; or ``"all"``, with shortcuts, linear layers and the
            classifier, whose outputs are then neither rectified nor normalised.
        filter_fn: Function of module and name, called for every layer that would be converted: whether it is.
        min_fan_in: Layers with fewer values in a patch are kept. Left out, 16, or 1 for relatives.
        dense: Hidden linear layers stay ``"linear"`` or become ``"xcnorm"`` too.
        rectify_first: ``rectify`` of the first layer, if it is converted. Left out, it is ``"abs"``, which measured
            best, unless ``preset="paper"`` or ``rectify`` is given.
        padding_mode: Padding of layers that padded with zeros; ``"zeros"`` leaves them. Left out, it is ``"replicate"``
            for XCNorm layers, and relatives pad as before.
        **options: Options of the layers; those of XCNorm layers are in `xcnorm.nn.RobustOptions`.

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
    forms = [name for name in FORMS if name != "conv"]
    if layer not in forms:
        raise ValueError(unknown_name("layer", layer, forms))
    form = find_form(layer)
    if dense not in _DENSE:
        raise ValueError(unknown_name("dense", dense, _DENSE))
    if form.whole:
        rectify_first = rectify_of_first(rectify_first, options)
    else:
        form.check_options(options)
        for argument, asked in (("dense", dense != "linear"), ("rectify_first", rectify_first is not None)):
            if asked:
                raise ValueError(f"{argument} is for XCNorm layers, not for layer={layer!r}; leave it out")
    slots = {slot.name: slot for slot in list_slots(model)}
    wanted = Policy.of(slots, policy, skip, filter_fn, min_fan_in, dense == "xcnorm")
    conversion = _Conversion(slots, form, wanted, rectify_first, padding_mode or form.padding_mode, options)
    for slot in conversion.candidates():
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
        self,
        slots: dict[str, Slot],
        form: LayerForm,
        policy: Policy,
        rectify_first: str | None,
        padding_mode: str,
        options: dict[str, Any],
    ) -> None:
        self.root = slots[""].module
        self.form = form
        self.policy = policy
        self.rectify_first = rectify_first
        self.padding_mode = padding_mode
        self.options = options
        self.changes: dict[str, Change] = {}
        self.converted: dict[int, nn.Module] = {}
        self.last_activation: Slot | None = None
        self.slots = slots
        self.next = successors(self.slots)
        self.per_image = self._per_image()
        modules = [slot.module for slot in self.slots.values()]
        weighted = [m for m in modules if type(m) in _WEIGHTED or isinstance(m, XCNormLayer | Relative)]
        self.first = weighted[0] if weighted else None
        self.classifier = find_classifier(weighted)

    def _per_image(self) -> bool:
        """Whether the new layers standardise each channel of each image."""
        return self.form.whole and NORMS[resolve(self.options, robust=self.form.robust, dense=False).norm].per_image

    def candidates(self) -> Iterator[Slot]:
        """Slots to convert; the others with weights are noted as kept, with the reason."""
        stage = first_stage(self.slots.values())
        holders = _holders(self.slots)
        for slot in list(self.slots.values()):
            reason = reason_to_keep(slot, self.form, self.classifier, self.policy, holders)
            late = self.policy.which == "first_stage" and id(slot.module) not in stage
            if reason is None and late and type(slot.module) in self.form.layers:
                reason = "behind the first stage (policy='first_stage')"
            if reason is not None:
                self._note(slot, slot.module, "kept", reason)
            elif type(slot.module) in self.form.layers:
                yield slot

    def replace(self, slot: Slot) -> None:
        """Put the layer in place, and take out those of norm and activation that it does not keep behind it."""
        norm = self._follower(slot, NORM_CLASSES)
        activation = self._follower(norm or slot, ACTIVATIONS)
        pooled = self.per_image and contains_pool(self._next_module(activation or norm or slot))
        # A module that hangs in several places is converted once and shared again.
        if id(slot.module) not in self.converted:
            # The mean of a map normalised per image is zero, so what is averaged is rectified or not normalised.
            overrides = {"norm": "none"} if pooled and activation is None else {}
            if slot.module is self.classifier and self.form.whole:
                overrides = {"norm": "none", "rectify": "none"}  # logits have a sign, and no images beside them
            self.converted[id(slot.module)] = self._make(slot.module, overrides)
        layer = self.converted[id(slot.module)]
        self._put(slot, layer)
        self._note(slot, layer, "converted", "; ".join(self._remarks(slot.module, layer)))
        own = self.form.whole
        if norm is not None and (own or self.form.norm == "none"):
            does = "which normalises its own channels" if own else "which needs no norm"
            self._remove(norm, f"follows {slot.name}, {does}")
        if activation is not None and pooled:
            self._note(activation, activation.module, "kept", "the mean of a map normalised per image is zero")
        elif activation is not None and not self.form.activation:
            does = "which rectifies on its own" if own else "which needs no activation"
            self._remove(activation, f"follows {slot.name}, {does}")
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
        unknown = "not known to follow a converted layer directly"
        stays = unknown if self.form.whole else f"{unknown}, or stays around layer={self.form.name!r}"
        for slot in self.slots.values():
            inside = slot.name.startswith(tuple(ours))
            if slot.name in self.changes or inside or next(slot.module.children(), None) is not None:
                continue
            if isinstance(slot.module, (*NORM_CLASSES, nn.LayerNorm, *ACTIVATIONS)):
                self._note(slot, slot.module, "kept", stays)
            else:
                self._note(slot, slot.module, "kept", "nothing to convert")

    def _make(self, module: nn.Module, overrides: dict[str, Any]) -> nn.Module:
        assert isinstance(module, nn.modules.conv._ConvNd | nn.Linear)
        options = dict(self.options)
        if module is self.first and self.rectify_first is not None:
            options["rectify"] = self.rectify_first
        options |= overrides
        if module is not self.first:
            options.pop("channelwise", None)  # an option of the layer that sees the colours
        where: dict[str, Any] = {"device": module.weight.device, "dtype": module.weight.dtype}
        cls: Any = self.form.layers[type(module)]
        layer: Any
        biased = module.bias is not None and self.form.bias
        if isinstance(module, nn.Linear):
            if NORMS[options.get("norm", "none")].per_image:
                options["norm"] = "batch"  # one value per channel and sample has no instance statistics
            layer = cls(module.in_features, module.out_features, **where, **options)
        else:
            mode = self.padding_mode if _pads_with_zeros(module) else module.padding_mode
            layer = cls(
                module.in_channels, module.out_channels, module.kernel_size, module.stride, module.padding,
                module.dilation, module.groups, biased, padding_mode=mode, **where, **options,
            )  # fmt: skip
        with torch.no_grad():
            # Where several filters stand for one, the others stay as they are: alike they could not part.
            layer.weight[:: len(layer.weight) // len(module.weight)].copy_(module.weight)
            if biased:
                layer.bias.copy_(module.bias)
            if isinstance(layer, Relative):
                layer.start()
        layer.weight.requires_grad_(module.weight.requires_grad)
        made: nn.Module = layer.train(module.training)
        return made

    def _remarks(self, module: nn.Module, layer: nn.Module) -> Iterator[str]:
        yield "weights kept as initial filters"
        if getattr(module, "bias", None) is not None and getattr(layer, "bias", None) is None:
            yield "bias dropped"
        if isinstance(module, nn.modules.conv._ConvNd) and layer.padding_mode != module.padding_mode:
            yield f"padding_mode={layer.padding_mode!r}"
        if isinstance(layer, XCNormLayer) and module is self.classifier:
            yield "the classifier: rectify='none', norm='none'"
            return
        if self.rectify_first is not None and module is self.first:
            yield f"rectify={self.rectify_first!r}"
        if isinstance(layer, XCNormLayer) and layer.options.norm == "none" != self.options.get("norm"):
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


def _pads_with_zeros(module: nn.modules.conv._ConvNd) -> bool:
    return module.padding_mode == "zeros" and any(module._reversed_padding_repeated_twice)


def _holders(slots: dict[str, Slot]) -> dict[int, list[Slot]]:
    """Where a parameter is held, by its id."""
    holders: dict[int, list[Slot]] = {}
    for slot in slots.values():
        for parameter in slot.module._parameters.values():
            holders.setdefault(id(parameter), []).append(slot)
    return holders
