"""The fusion itself: which layers are folded, and what becomes of the norms behind them."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from xcnorm.conversion.flow import find_flow
from xcnorm.conversion.hooks import has_hooks
from xcnorm.conversion.reversal import forget_plain
from xcnorm.conversion.tree import NORM_CLASSES, Slot, list_slots
from xcnorm.fusion.fixed import FixedStages, fix, stands_still
from xcnorm.fusion.report import Fused, attach_report
from xcnorm.nn import FORMS, Relative, SyncBatchNorm, XCNormLayer

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, SyncBatchNorm)
_OWN_CLASS = "it is of a class of its own"


@torch.no_grad()
def fuse(model: nn.Module) -> nn.Module:
    """Make the network that inference needs: all that does not move any more becomes constants.

    - Of an XCNorm layer: its filters are centred and normalised once; c, tau, gain and the moving averages of its norm
      become constants, the latter two one factor and one shift for each channel.
    - A relative that is a plain convolution with other filters, as ``"weight_normalised"``, becomes that convolution.
    - A batch norm that directly follows a convolution or a linear layer, and alone takes its output, goes into it.

    What takes statistics of each image, such as an instance norm, has nothing that could be folded and stays;
    `fusion_report` says so. The numbers are those of the model in evaluation mode, up to rounding.

    Args:
        model: Any module tree; it is left as it is.

    Returns:
        A copy, in evaluation mode and without gradients of its parameters. It cannot be trained any further.

    Raises:
        ValueError: The model was fused before.

    Example:
        >>> from xcnorm import create_model
        >>> from xcnorm.fusion import fusion_report
        >>> network = create_model("wrn16_4", "r_xcnorm", preset="paper").eval()
        >>> images = torch.rand(2, 3, 32, 32)
        >>> torch.allclose(fuse(network)(images), network(images), atol=1e-4)
        True
    """
    if is_fused(model):
        raise ValueError("this model is fused already")
    fusion = _Fusion(copy.deepcopy(model).eval().requires_grad_(False))
    fusion.fold_layers()
    fusion.fold_norms()
    return fusion.finish()


def is_fused(model: nn.Module) -> bool:
    """Whether a model has layers that `fuse` made."""
    return any(isinstance(module, FixedStages) for module in model.modules())


class _Fusion:
    """One fusion under way, of a model that may be changed."""

    def __init__(self, model: nn.Module) -> None:
        forget_plain(model)
        self.root = model
        self.slots = {slot.name: slot for slot in list_slots(model)}
        self.flow = find_flow(self.slots)  # before anything is changed
        self.places = Counter(id(slot.module) for slot in self.slots.values())
        self.found: dict[str, Fused] = {}

    def fold_layers(self) -> None:
        """What is inside XCNorm layers and relatives."""
        plain: dict[int, nn.Conv2d] = {}
        fixed: dict[int, tuple[list[str], str]] = {}
        for slot in self.slots.values():
            module = slot.module
            if isinstance(module, XCNormLayer | Relative) and type(module) not in _known():
                self._note(slot, [], _OWN_CLASS)
            elif isinstance(module, XCNormLayer):
                fixed[id(module)] = fixed.get(id(module)) or fix(module)
                self._note(slot, *fixed[id(module)])
            elif isinstance(module, Relative):
                if (filters := module.plain_filters()) is None:
                    self._note(slot, [], "it is no plain convolution with other filters")
                elif has_hooks(module):
                    self._note(slot, [], "it has hooks")
                else:
                    plain[id(module)] = plain.get(id(module)) or _convolution(module, filters)
                    self._put(slot, plain[id(module)])
                    self._note(slot, ["filters"], "")

    def fold_norms(self) -> None:
        """Batch norms behind plain layers."""
        into = {after.name: self.slots[name] for name, after in self.flow.after.items()}
        inside = tuple(f"{name}." for name, slot in self.slots.items() if isinstance(slot.module, XCNormLayer))
        for slot in self.slots.values():
            if not isinstance(slot.module, NORM_CLASSES) or slot.name.startswith(inside):
                continue
            if type(slot.module) not in _BATCH_NORMS or not stands_still(slot.module):
                self._note(slot, [], "it takes statistics of each image, or of each batch")
                continue
            before = into.get(slot.name)
            layer = None if before is None else self.root.get_submodule(before.name)
            if before is None or type(layer) not in (*_CONVOLUTIONS, nn.Linear):
                self._note(slot, [], "no plain layer is known to stand directly before it")
            elif self.places[id(before.module)] > 1 or self.places[id(slot.module)] > 1:
                self._note(slot, [], "it or the layer before it hangs in several places")
            elif has_hooks(before.module) or has_hooks(slot.module):
                self._note(slot, [], "it or the layer before it has hooks")
            else:
                fold: Any = fuse_linear_bn_eval if isinstance(layer, nn.Linear) else fuse_conv_bn_eval
                self._put(before, fold(layer, slot.module).requires_grad_(False))
                self._put(slot, nn.Identity())
                self._note(slot, [f"into {before.name}"], "")

    def finish(self) -> nn.Module:
        """The model, with its report."""
        attach_report(self.root, tuple(self.found[name] for name in self.slots if name in self.found))
        return self.root.eval()

    def _note(self, slot: Slot, folded: list[str], reason: str) -> None:
        self.found[slot.name] = Fused(slot.name, type(slot.module).__name__, tuple(folded), reason)

    def _put(self, slot: Slot, module: nn.Module) -> None:
        if slot.parent is None:
            self.root = module
        else:
            setattr(slot.parent, slot.attribute, module)


def _known() -> set[type[nn.Module]]:
    """The classes of all forms: what a subclass changes is not known."""
    return {layer for form in FORMS.values() for layer in form.layers.values()}


def _convolution(layer: Relative, filters: Tensor) -> nn.Conv2d:
    size: Any = (layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding, layer.dilation)
    where: dict[str, Any] = {"device": filters.device, "dtype": filters.dtype}
    rest: Any = (layer.groups, layer.bias is not None, layer.padding_mode)
    plain = nn.Conv2d(*size, *rest, **where).requires_grad_(False)
    plain.weight.copy_(filters)
    if plain.bias is not None and layer.bias is not None:
        plain.bias.copy_(layer.bias)
    return plain.eval()
