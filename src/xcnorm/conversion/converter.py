"""The conversion itself: which layers are replaced, by what, and what goes with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch import nn

from xcnorm.conversion.calibration import calibrate, list_images
from xcnorm.conversion.cost import estimated_cost
from xcnorm.conversion.flow import Flow, find_flow
from xcnorm.conversion.hooks import carry_hooks, has_hooks
from xcnorm.conversion.policy import Policy, Skip, first_stage
from xcnorm.conversion.reasons import find_classifier, find_holders, reason_to_keep
from xcnorm.conversion.replacement import Replacement
from xcnorm.conversion.report import Change, attach_report, count_parameters
from xcnorm.conversion.reversal import Plain, keep_plain
from xcnorm.conversion.tree import ACTIVATIONS, NORM_CLASSES, Slot, inner_activation, list_slots
from xcnorm.errors import unknown_name
from xcnorm.nn import FORMS, NORMS, Relative, XCNormLayer, find_form
from xcnorm.nn.options import rectify_of_first, resolve

_DENSE = ("linear", "xcnorm")
_WEIGHTED = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)
_OURS = (XCNormLayer, Relative)
_NOTHING = "nothing to convert"
_MEAN_IS_ZERO = "the mean of a map normalised per image is zero"


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
    batches: Iterable[Any] | None = None,
    **options: Any,
) -> nn.Module:
    """Put XCNorm layers or relatives in place of a model's convolutions. The model is changed and returned; retrain it.

    A convolution's weights become the initial filters of the layer in its place. The norm and the activation that
    directly follow it, and alone take its output, are replaced by identities: the layer brings its own. A trace of the
    forward shows which they are; where there is none, Sequentials and known blocks do. Of relatives, which are for
    images alone, each says whether they stay. Kept as they are:

    - the classifier, which is the last linear layer, or a last 1x1 convolution;
    - 1x1 convolutions on shortcuts, so that the shortcut stays linear, and on pooled values;
    - convolutions whose patch has fewer than 16 values, which relatives may have;
    - with ``norm="instance"``, the activation before an average pool and after the last converted convolution: the mean
      of a map normalised per image is zero. A convolution that is averaged without any activation gets ``norm="none"``.

    `conversion_report` lists every decision, and `revert` puts the plain layers back.

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
        batches: A few batches of training images to `xcnorm.calibrate` the new layers on. In what cannot be traced, the
            first one shows which 1x1 convolutions see maps of a single position. Left out, nothing is calibrated.
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
        layer  was          is            action     parameters      cost   why
        0      Conv2d       XCNormConv2d  converted  448 to 449      1.52x  weights kept as initial filters; bias ...
        1      BatchNorm2d  Identity      removed    32 to 0                follows 0, which normalises its own channels
        2      ReLU         Identity      removed                           follows 0, which rectifies on its own
        3      Conv2d       XCNormConv2d  converted  ...
        4      ReLU         ReLU          kept                              the mean of a map normalised per image ...
        5      AdaptiveAvgPool2d  ...
        6      Flatten ...
        7      Linear       Linear        kept       330                    the classifier
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
    images = None if batches is None else list_images(batches)
    slots = {slot.name: slot for slot in list_slots(model)}
    wanted = Policy.of(slots, policy, skip, filter_fn, min_fan_in, dense == "xcnorm")
    weighted = [s.module for s in slots.values() if type(s.module) in _WEIGHTED or isinstance(s.module, _OURS)]
    first, classifier = weighted[0] if weighted else None, find_classifier(weighted)
    how = Replacement(form, padding_mode or form.padding_mode, options, rectify_first, first, classifier)
    conversion = _Conversion(slots, wanted, how, find_flow(slots, images[0] if images else None))
    candidates = list(conversion.candidates())
    try:
        for slot in candidates:
            conversion.replace(slot)
    except BaseException:  # Ctrl-C included: half of a conversion is of no use to anybody
        conversion.undo()
        raise
    conversion.restore_last_activation()
    conversion.note_the_rest()
    if not conversion.converted:
        raise ValueError(
            "nothing to convert: the model has no convolution that is neither skipped nor too small; "
            f"see dense='xcnorm' for linear layers. Kept were: {conversion.why_kept()}"
        )
    changes = conversion.changes
    keep_plain(conversion.root, conversion.plain)
    attach_report(conversion.root, tuple(changes[name] for name in slots if name in changes))
    return conversion.root if images is None else calibrate(conversion.root, images)


class _Conversion:
    """One conversion under way."""

    def __init__(self, slots: dict[str, Slot], policy: Policy, how: Replacement, flow: Flow) -> None:
        self.root = slots[""].module
        self.slots = slots
        self.policy = policy
        self.how = how
        self.form = how.form
        self.per_image = self._per_image()
        self.flow = flow
        self.changes: dict[str, Change] = {}
        self.plain: dict[str, Plain] = {}
        self.converted: dict[int, nn.Module] = {}
        self.last_activation: tuple[Slot, nn.Module] | None = None

    def _per_image(self) -> bool:
        """Whether the new layers standardise each channel of each image."""
        return self.form.whole and NORMS[resolve(self.how.options, robust=self.form.robust, dense=False).norm].per_image

    def candidates(self) -> Iterator[Slot]:
        """Slots to convert; the others with weights are noted as kept, with the reason."""
        stage = first_stage(self.slots.values())
        holders = find_holders(self.slots)
        for slot in list(self.slots.values()):
            reason = reason_to_keep(slot, self.form, self.how.classifier, self.policy, holders, self.flow)
            late = self.policy.which == "first_stage" and id(slot.module) not in stage
            if reason is None and late and type(slot.module) in self.form.layers:
                reason = "behind the first stage (policy='first_stage')"
            if reason is not None:
                self._note(slot, slot.module, "kept", reason)
            elif type(slot.module) in self.form.layers:
                yield slot

    def replace(self, slot: Slot) -> None:
        """Put the layer in place, and take out those of norm and activation that it does not keep behind it."""
        norm, inner, remark = self._norm_after(slot)
        activation = self._follower(norm or slot, ACTIVATIONS) if inner is None and not remark else None
        end = activation or norm or slot
        averaged = self.per_image and end.name in self.flow.averaged
        # Within three deviations it is a parabola, whose mean over a standardised map is a constant.
        parabola = averaged and isinstance(inner or end.module, nn.Hardswish)
        # A module that hangs in several places is converted once and shared again.
        if id(slot.module) not in self.converted:
            bare = averaged and (parabola or (activation is None and inner is None and not remark))
            self.converted[id(slot.module)] = self.how.make(slot.module, averaged=bare)
        layer = self.converted[id(slot.module)]
        self.plain[slot.name] = Plain(slot.module, slot.name, end.name)
        self._put(slot, layer, slot)
        remark += carry_hooks(slot.module, layer)
        if end.name in self.flow.functions:
            remark += f"; {self.flow.functions[end.name]} follows as a function and stays"
        self._note(slot, layer, "converted", "; ".join(self.how.remarks(slot.module, layer)) + remark)
        own = self.form.whole
        if norm is not None and (own or self.form.norm == "none"):
            does = "which normalises its own channels" if own else "which needs no norm"
            keeps = inner if (averaged and not parabola) or self.form.activation else None
            self._remove(norm, slot, does, keeps)
        if activation is not None and averaged and not parabola:
            self._note(activation, activation.module, "kept", _MEAN_IS_ZERO)
        elif activation is not None and not self.form.activation:
            does = "which rectifies on its own" if own else "which needs no activation"
            self._remove(activation, slot, does)
        if not isinstance(slot.module, nn.Linear):
            self.last_activation = None
            if parabola:
                return
            if activation is not None:
                self.last_activation = activation, activation.module
            elif norm is not None and inner is not None:
                self.last_activation = norm, inner

    def undo(self) -> None:
        """Put back what was taken out, as a layer could not be made."""
        for name, plain in self.plain.items():
            if (parent := self.slots[name].parent) is not None:
                setattr(parent, self.slots[name].attribute, plain.module)

    def why_kept(self) -> str:
        """The reasons for which layers were kept, the most frequent ones first."""
        reasons = Counter(change.reason for change in self.changes.values() if change.reason != _NOTHING)
        return ", ".join(f"{count} ({reason})" for reason, count in reasons.most_common(3)) or "none"

    def _norm_after(self, slot: Slot) -> tuple[Slot | None, nn.Module | None, str]:
        """The norm that follows a layer, the activation that it applies itself, and a remark if it has to stay."""
        norm = self._follower(slot, NORM_CLASSES)
        if norm is None:
            return None, None, ""
        try:
            return norm, inner_activation(norm.module), ""
        except ValueError as unclear:
            return None, None, f"; {norm.name} behind it stays: {unclear}"

    def _follower(self, slot: Slot, kinds: tuple[type[nn.Module], ...]) -> Slot | None:
        follower = self.flow.after.get(slot.name)
        return follower if follower is not None and isinstance(follower.module, kinds) else None

    def restore_last_activation(self) -> None:
        """Give the last converted convolution its activation back: a global pool is likely to come."""
        if self.per_image and self.last_activation is not None:
            slot, activation = self.last_activation
            self._put(slot, activation, slot)
            if activation is slot.module:
                del self.plain[slot.name]
                self._note(slot, activation, "kept", _MEAN_IS_ZERO)
            else:
                hooks = _left_behind(slot.module)
                self._note(slot, activation, "removed", f"only its activation stays: {_MEAN_IS_ZERO}{hooks}")

    def note_the_rest(self) -> None:
        """Say of every other layer why it is as it was."""
        ours = [name + "." for name, slot in self.slots.items() if isinstance(slot.module, XCNormLayer)]
        unknown = "not known to follow a converted layer directly"
        stays = unknown if self.form.whole else f"{unknown}, or stays around layer={self.form.name!r}"
        for name, slot in self.slots.items():
            if name in self.flow.untraced:
                error = self.flow.untraced[name]
                self._note(slot, slot.module, "kept", f"forward not traced, known blocks aside ({error})")
            whole = isinstance(slot.module, NORM_CLASSES) or next(slot.module.children(), None) is None
            inside = name.startswith(tuple(ours)) or isinstance(slot.parent, NORM_CLASSES)
            if name in self.changes or inside or not whole:
                continue
            if isinstance(slot.module, (*NORM_CLASSES, nn.LayerNorm, *ACTIVATIONS)):
                self._note(slot, slot.module, "kept", stays)
            elif name in self.flow.borrowed:
                self._note(slot, slot.module, "kept", "convolves by a function; only layers are converted")
            else:
                self._note(slot, slot.module, "kept", _NOTHING)

    def _remove(self, slot: Slot, leader: Slot, does: str, keeps: nn.Module | None = None) -> None:
        instead = nn.Identity().train(slot.module.training) if keeps is None else keeps
        hooks = carry_hooks(slot.module, instead) if keeps is None else _left_behind(slot.module)
        self._put(slot, instead, leader)
        stays = "" if keeps is None else "; its activation stays"
        self._note(slot, instead, "removed", f"follows {leader.name}, {does}{stays}{hooks}")

    def _put(self, slot: Slot, module: nn.Module, leader: Slot) -> None:
        self.plain.setdefault(slot.name, Plain(slot.module, leader.name))
        if slot.parent is None:
            self.root = module
        else:
            setattr(slot.parent, slot.attribute, module)

    def _note(self, slot: Slot, now: nn.Module, action: str, reason: str) -> None:
        before, after = type(slot.module).__name__, type(now).__name__
        sizes = count_parameters(slot.module), count_parameters(now)
        cost = estimated_cost(now) if action == "converted" else None
        self.changes[slot.name] = Change(slot.name, before, after, action, reason, sizes[0], sizes[1], cost)


def _left_behind(module: nn.Module) -> str:
    return "; its hooks left behind" if has_hooks(module) else ""
