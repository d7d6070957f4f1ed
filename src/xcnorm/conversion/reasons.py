"""The reasons for which a conversion leaves a layer as it is."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.utils import parametrize

from xcnorm.conversion.flow import Flow
from xcnorm.conversion.policy import Policy
from xcnorm.conversion.tree import Slot
from xcnorm.nn import LayerForm, XCNormLayer

POOLED = "works on pooled values, as in squeeze and excitation"

_SHORTCUTS = ("downsample", "shortcut", "projection")
_QUANTISED = ("torch.ao.nn.", "torch.nn.quantized.", "torch.nn.intrinsic.")


def reason_to_keep(
    slot: Slot,
    form: LayerForm,
    classifier: nn.Module | None,
    policy: Policy,
    holders: dict[int, list[Slot]],
    flow: Flow,
) -> str | None:
    """Why a layer with weights is not converted; None if it is, or has no weights.

    Args:
        slot: Where it hangs.
        form: What is converted to.
        classifier: The model's last linear layer.
        policy: What the user wants.
        holders: Where a parameter is held, by its id.
        flow: What is known of the model's forward.
    """
    module = slot.module
    if isinstance(module, XCNormLayer):
        return "already an XCNorm layer"
    if (reason := _unusual(module)) is not None:
        return reason
    if type(module) not in form.layers:
        if not isinstance(module, _ConvNd | nn.Linear):
            return None
        if module is classifier:
            return "the classifier"
        name = type(module).__name__
        if name in (torchs.__name__ for torchs in form.layers):  # a subclass of the same name
            name = f"{type(module).__module__}.{name}"
        return f"{name} has no {'XCNorm' if form.whole else form.name} form"
    assert isinstance(module, _ConvNd | nn.Linear)
    if policy.skips(slot):
        return "skipped by request"
    if others := [other.name for other in holders[id(module.weight)] if other.module is not module]:
        return f"its weight is also that of {others[0]}"
    if slot.name in flow.borrowed:
        return "the model uses its weight without calling it, as in F.conv2d(x, layer.weight)"
    if _part_of_torchs(slot.parent):
        return f"part of {type(slot.parent).__name__}, which may use its weight without calling it"
    everything = policy.which == "all"
    if module is classifier and not everything:
        return "the classifier"
    if isinstance(module, nn.Linear) and not policy.dense:
        return "linear layers were not asked for (dense='linear')"
    on_shortcut = any(part in _SHORTCUTS for part in slot.name.split("."))
    if isinstance(module, _ConvNd) and on_shortcut and all(k == 1 for k in module.kernel_size) and not everything:
        return "a shortcut, which stays linear"
    if isinstance(module, _ConvNd) and slot.name in flow.pooled:
        return POOLED
    smallest = form.smallest_patch if policy.min_fan_in is None else policy.min_fan_in
    if (alpha := module.weight[0].numel()) < smallest:
        return f"a patch has only {alpha} values, fewer than {smallest}"
    if policy.filter_fn is not None and not policy.filter_fn(module, slot.name):
        return "filter_fn is false"
    return None


def _unusual(module: nn.Module) -> str | None:
    """What is special about a layer's weight, so that a copy of it would not be the layer's."""
    if type(module).__module__.startswith(_QUANTISED):
        return "quantised; convert before you quantise"
    if isinstance(module, torch.jit.ScriptModule):
        return "compiled by torch.jit; convert before you compile"
    if not isinstance(module, _ConvNd | nn.Linear):
        return None
    if parametrize.is_parametrized(module):
        return f"its {', '.join(module.parametrizations)} is parametrized; remove the parametrizations first"  # type: ignore[arg-type]
    weight = module._parameters.get("weight")
    if weight is None:
        return "its weight is computed before every call, as by weight_norm or pruning; make that permanent first"
    if isinstance(weight, nn.UninitializedParameter):
        return "its sizes are not known yet; run the model once first"
    if type(weight.data) is not torch.Tensor or not weight.is_floating_point():
        return f"its weight is a {type(weight.data).__name__} of {weight.dtype}, as when quantised"
    if module._state_dict_hooks or module._load_state_dict_pre_hooks or module._state_dict_pre_hooks:
        return "has hooks on its state dict"
    return None


def _part_of_torchs(parent: nn.Module | None) -> bool:
    place = type(parent).__module__
    return place.startswith("torch.nn.modules.") and place != "torch.nn.modules.container"


def find_classifier(weighted: list[nn.Module]) -> nn.Module | None:
    """The last layer with weights, if it is linear: a Linear, or in a fully convolutional network a 1x1 convolution."""
    if not weighted:
        return None
    last = weighted[-1]
    if isinstance(last, _ConvNd) and (len(weighted) == 1 or any(k > 1 for k in last.kernel_size)):
        linear = [module for module in weighted if isinstance(module, nn.Linear)]
        return linear[-1] if linear else None
    return last


def find_holders(slots: dict[str, Slot]) -> dict[int, list[Slot]]:
    """Where a parameter is held, by its id."""
    holders: dict[int, list[Slot]] = {}
    for slot in slots.values():
        for parameter in slot.module._parameters.values():
            holders.setdefault(id(parameter), []).append(slot)
    return holders
