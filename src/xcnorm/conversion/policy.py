"""The policy of a conversion: which layers the user wants to have converted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from torch import nn
from torch.nn.modules.conv import _ConvNd

from xcnorm.conversion.tree import Slot
from xcnorm.errors import unknown_name

Skip = str | type[nn.Module] | Callable[[str, nn.Module], bool]
"""Layers by name with wildcards, by class, or by a function of name and module."""

POLICIES = ("all_but_classifier", "first_stage", "all")

_REDUCING_POOLS = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)


@dataclass(frozen=True)
class Policy:
    """What the user asked for; the structure of the model may still forbid it.

    Attributes:
        which: One of `POLICIES`.
        skip: Layers to leave alone.
        filter_fn: Function of module and name, called for layers that would be converted: whether they are.
        min_fan_in: Layers with fewer values in a patch stay plain; None leaves it to the form.
        dense: Whether hidden linear layers are converted.
    """

    which: str = POLICIES[0]
    skip: tuple[Skip, ...] = ()
    filter_fn: Callable[[nn.Module, str], bool] | None = None
    min_fan_in: int | None = None
    dense: bool = False

    @classmethod
    def of(
        cls,
        slots: dict[str, Slot],
        which: str,
        skip: Skip | Iterable[Skip],
        filter_fn: Callable[[nn.Module, str], bool] | None,
        min_fan_in: int | None,
        dense: bool,
    ) -> Policy:
        """From the arguments of `xcnorm.convert`.

        Raises:
            ValueError: A value is not possible, or a name fits no layer of the model.
            TypeError: A value has the wrong type.
        """
        if which not in POLICIES:
            raise ValueError(unknown_name("policy", which, POLICIES))
        if filter_fn is not None and not callable(filter_fn):
            raise TypeError(f"filter_fn must be a function of module and name, got {filter_fn!r}; names go into skip")
        if min_fan_in is not None and (isinstance(min_fan_in, bool) or not isinstance(min_fan_in, int)):
            raise TypeError(f"min_fan_in must be an integer, got {min_fan_in!r}")
        if min_fan_in is not None and min_fan_in < 2:
            raise ValueError(f"min_fan_in must be at least 2, got {min_fan_in}: one value has no correlation")
        skips = (skip,) if isinstance(skip, str | type) or callable(skip) else tuple(skip)
        for each in skips:
            if isinstance(each, str) and not any(fnmatchcase(name, each) for name in slots):
                raise ValueError(f"skip={each!r} fits no layer of the model; {_hint(each, slots)}")
        return cls(which, skips, filter_fn, min_fan_in, dense or which == "all")

    def skips(self, slot: Slot) -> bool:
        """Whether the user wants this layer to be left alone."""
        return any(_matches(skip, slot) for skip in self.skip)


def first_stage(slots: Iterable[Slot]) -> set[int]:
    """The ids of the modules before the second stage of a network, in order of registration.

    The stem may reduce the resolution as often as it likes. The next layer that does, after a convolution that does
    not, starts the second stage.
    """
    found: set[int] = set()
    in_stage = False
    for slot in slots:
        module = slot.module
        reduces = isinstance(module, (_ConvNd, *_REDUCING_POOLS)) and _largest(module.stride) > 1
        if reduces and in_stage:
            break
        in_stage = in_stage or (isinstance(module, _ConvNd) and not reduces)
        found.add(id(module))
    return found


def _largest(stride: Any) -> int:
    return max(stride) if isinstance(stride, tuple | list) else stride


def _hint(name: str, slots: dict[str, Slot]) -> str:
    example = next((slot.name for slot in slots.values() if isinstance(slot.module, _ConvNd | nn.Linear)), "")
    return f"wildcards take a whole branch ({name + '.*'!r}), and names are as in named_modules(), such as {example!r}"


def _matches(skip: Skip, slot: Slot) -> bool:
    if isinstance(skip, str):
        return fnmatchcase(slot.name, skip)
    if isinstance(skip, type):
        return isinstance(slot.module, skip)
    return skip(slot.name, slot.module)
