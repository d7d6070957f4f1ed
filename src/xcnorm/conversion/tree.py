"""What hangs where in a model, and what is known to run after what."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from xcnorm.nn import Norm

NORM_CLASSES = (_NormBase, nn.GroupNorm, Norm)
ACTIVATIONS = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.RReLU, nn.ELU, nn.CELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish,
    nn.Hardswish, nn.Hardtanh, nn.Softplus, nn.Tanh, nn.Sigmoid,
)  # fmt: skip
POOLS = (
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


class Slot(NamedTuple):
    """A place in the tree: where a module hangs, and what hangs there."""

    name: str
    parent: nn.Module | None
    attribute: str
    module: nn.Module


def list_slots(model: nn.Module) -> Iterator[Slot]:
    """Every place of the tree in order of registration, shared modules as often as they hang somewhere."""
    modules = dict(model.named_modules(remove_duplicate=False))
    for name, module in modules.items():
        parent, _, attribute = name.rpartition(".")
        yield Slot(name, modules[parent] if name else None, attribute, module)


def successors(slots: dict[str, Slot]) -> dict[str, Slot]:
    """Which slot runs directly after which, as far as Sequentials and known blocks tell."""
    following: dict[str, Slot] = {}
    for slot in slots.values():
        if runs_in_order(slot.module) and not runs_in_order(slot.parent):
            runs = [list(_run(slot, slots))]
        else:
            chains = _KNOWN_BLOCKS.get(type(slot.module).__name__, ())
            paths = [[f"{slot.name}.{child}".lstrip(".") for child in chain] for chain in chains]
            runs = [[slots[path] for path in chain if path in slots] for chain in paths]
            runs = [run for run in runs if _plausible(run, list(slot.module._modules))]
        for run in runs:
            following.update({before.name: after for before, after in itertools.pairwise(run)})
    return following


def _run(sequential: Slot, slots: dict[str, Slot]) -> Iterator[Slot]:
    """What a Sequential runs, one after the other; Sequentials inside it are opened up, identities passed over."""
    for attribute in sequential.module._modules:
        slot = slots[f"{sequential.name}.{attribute}".lstrip(".")]
        if runs_in_order(slot.module):
            yield from _run(slot, slots)
        elif not isinstance(slot.module, nn.Identity):
            yield slot


def inner_activation(norm: nn.Module) -> nn.Module | None:
    """The activation that a norm applies itself, as timm's BatchNormAct2d does; None for a norm alone.

    Raises:
        ValueError: It has a forward of its own that does not show what it does.
    """
    if type(norm).forward.__module__.startswith(("torch.", "xcnorm.")):
        return None
    children = list(norm.children())
    inner = [child for child in children if not isinstance(child, nn.Identity)]
    if not children or len(inner) > 1:
        raise ValueError(f"{type(norm).__name__} has a forward of its own")
    return inner[0] if inner else None


def runs_in_order(module: nn.Module | None) -> bool:
    """Whether a module runs its children one after the other; a subclass may have a forward of its own."""
    return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward


def contains_pool(module: nn.Module | None) -> bool:
    """Whether a module averages over positions, itself or, as squeeze and excitation does, inside."""
    return module is not None and not runs_in_order(module) and any(isinstance(m, POOLS) for m in module.modules())


def _plausible(run: list[Slot], registered: list[str]) -> bool:
    """Whether a chain fits the block that bears the name: pre-activation blocks bear it too, and run norms first."""
    places = [registered.index(slot.attribute) for slot in run]
    if len(run) < 2 or places != sorted(places):
        return False
    channels = getattr(run[1].module, "num_features", None)
    return channels is None or channels == getattr(run[0].module, "out_channels", None)
