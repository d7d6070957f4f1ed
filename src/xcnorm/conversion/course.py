"""The course of a conversion: layers are replaced one by one, with what goes with them, and may all be put back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from torch import nn

from xcnorm.conversion.cost import estimated_cost
from xcnorm.conversion.flow import Flow
from xcnorm.conversion.hooks import carry_hooks, has_hooks
from xcnorm.conversion.policy import Policy, first_stage
from xcnorm.conversion.reasons import find_holders, reason_to_keep
from xcnorm.conversion.replacement import Replacement
from xcnorm.conversion.report import Change, count_parameters
from xcnorm.conversion.reversal import Plain
from xcnorm.conversion.tree import ACTIVATIONS, NORM_CLASSES, Slot, inner_activation
from xcnorm.nn import XCNormLayer

_NOTHING = "nothing to convert"
_MEAN_IS_ZERO = "the mean of a map normalised per image is zero"


class Conversion:
    """One conversion under way.

    Args:
        slots: Every place of the model.
        policy: What the user wants.
        how: How layers are replaced.
        flow: What is known of the model's forward.

    Attributes:
        root: The model, or what has taken its place.
        changes: What is to be said of each layer, by name.
        plain: What was taken out, by name.
        converted: The new layers, by the id of the plain one.
    """

    def __init__(self, slots: dict[str, Slot], policy: Policy, how: Replacement, flow: Flow) -> None:
        self.root = slots[""].module
        self.slots = slots
        self.policy = policy
        self.how = how
        self.form = how.form
        self.per_image = how.per_image
        self.flow = flow
        self.changes: dict[str, Change] = {}
        self.plain: dict[str, Plain] = {}
        self.converted: dict[int, nn.Module] = {}
        self.last_activation: tuple[Slot, nn.Module] | None = None

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
            normed = norm is not None or bool(remark)
            self.converted[id(slot.module)] = self.how.make(slot.module, averaged=bare, normed=normed)
        layer = self.converted[id(slot.module)]
        self.plain[slot.name] = Plain(slot.module, slot.name, end.name)
        self._put(slot, layer, slot)
        remark += carry_hooks(slot.module, layer)
        if end.name in self.flow.functions:
            remark += f"; {self.flow.functions[end.name]} follows as a function and stays"
        self._note(slot, layer, "converted", "; ".join(self.how.remarks(slot.module, layer)) + remark)
        own = self.form.whole and self.how.own_stages
        if self.form.whole and not own:
            for each in (norm, activation):
                if each is not None:
                    self._note(each, each.module, "kept", f"follows {slot.name}, whose stages are the model's own")
        if norm is not None and (own or self.form.norm == "none"):
            does = "which normalises its own channels" if own else "which needs no norm"
            keeps = inner if (averaged and not parabola) or self.how.activation else None
            self._remove(norm, slot, does, keeps)
        if activation is not None and averaged and not parabola:
            self._note(activation, activation.module, "kept", _MEAN_IS_ZERO)
        elif activation is not None and not self.how.activation:
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
