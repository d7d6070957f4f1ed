"""The reasons for which a conversion leaves a layer as it is."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase

from torch import nn

from xcnorm.conversion.tree import Slot, runs_in_order
from xcnorm.nn import LayerForm, XCNormLayer

Skip = str | type[nn.Module] | Callable[[str, nn.Module], bool]

_POOLS = (
    nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d,
)  # fmt: skip
_SHORTCUTS = ("downsample", "shortcut", "projection")


def reason_to_keep(
    slot: Slot, form: LayerForm, classifier: nn.Module | None, dense: bool, skips: list[Skip]
) -> str | None:
    """Why a layer with weights is not converted; None if it is, or has no weights.

    Args:
        slot: Where it hangs.
        form: What is converted to.
        classifier: The model's last linear layer.
        dense: Whether linear layers are converted.
        skips: What the user wants to keep.
    """
    module = slot.module
    if isinstance(module, XCNormLayer):
        return "already an XCNorm layer"
    if type(module) not in form.layers:
        if not isinstance(module, nn.modules.conv._ConvNd | nn.Linear):
            return None
        if module is classifier:
            return "the classifier"
        return f"{type(module).__name__} has no {'XCNorm' if form.whole else form.name} form"
    if any(_matches(skip, slot) for skip in skips):
        return "skipped by request"
    if module is classifier:
        return "the classifier"
    if isinstance(module, nn.Linear):
        return None if dense else "linear layers were not asked for (dense='linear')"
    assert isinstance(module, nn.modules.conv._ConvNd)
    if any(part in _SHORTCUTS for part in slot.name.split(".")) and all(k == 1 for k in module.kernel_size):
        return "a shortcut, which stays linear"
    if all(k == 1 for k in module.kernel_size) and contains_pool(slot.parent):
        return "works on pooled values, as in squeeze and excitation"
    if (alpha := module.weight[0].numel()) < form.smallest_patch:
        return f"a patch has only {alpha} values, fewer than {form.smallest_patch}"
    return None


def contains_pool(module: nn.Module | None) -> bool:
    """Whether a module averages over positions, itself or, as squeeze and excitation does, inside."""
    return module is not None and not runs_in_order(module) and any(isinstance(m, _POOLS) for m in module.modules())


def find_classifier(weighted: list[nn.Module]) -> nn.Module | None:
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
