"""A dictionary after every convolution of any model."""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch import nn

from xcnorm.conversion.tree import ACTIVATIONS, NORM_CLASSES, Slot, list_slots, successors
from xcnorm.nn import Dictionary, Rebuilt

_MAX_POOLS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)


def add_dictionaries(model: nn.Module, **options: Any) -> nn.Module:
    """Let what comes out of every convolution be rebuilt from a dictionary. The model is changed and returned.

    A dictionary stands behind the norm, the activation and the max pool that directly follow a convolution, as far as a
    Sequential or a known block (torchvision's and timm's ResNets, DenseNets) shows that they do; else behind the
    convolution itself, or behind one of our layers, which bring norm and rectifier along. Convolutions with a kernel of
    a single position see no local pattern, and get none: shortcuts remain linear. A convolution that runs in several
    places has one dictionary for all of them; one that has a dictionary already gets no second.

    Args:
        model: Any module tree.
        **options: Options of `xcnorm.nn.Dictionary`.

    Returns:
        The model; or the convolution with its dictionary, if the model was a single one.

    Raises:
        ValueError: An option's value is not possible, or there is no convolution to add a dictionary to.

    Example:
        >>> model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        ...                       nn.Conv2d(16, 32, 3), nn.Flatten(), nn.Linear(800, 10))
        >>> print(*(type(module).__name__ for module in add_dictionaries(model, words=64)))
        Conv2d BatchNorm2d ReLU Rebuilt Rebuilt Flatten Linear
    """
    slots = {slot.name: slot for slot in list_slots(model)}
    following = successors(slots)
    places = Counter(id(slot.module) for slot in slots.values())
    made: dict[int, Rebuilt] = {}
    for slot in slots.values():
        convolution = slot.module
        if not isinstance(convolution, nn.Conv1d | nn.Conv2d | nn.Conv3d):
            continue
        if all(size == 1 for size in convolution.kernel_size):
            continue
        last = _end_of_unit(slot, following, places)
        after = following.get(last.name)
        if isinstance(last.parent, Rebuilt) or (after is not None and isinstance(after.module, Rebuilt)):
            continue
        if id(last.module) not in made:
            where: dict[str, Any] = {"device": convolution.weight.device, "dtype": convolution.weight.dtype}
            dictionary = Dictionary(convolution.out_channels, **options, **where)
            made[id(last.module)] = Rebuilt(last.module, dictionary).train(convolution.training)
        if last.parent is None:
            return made[id(last.module)]
        setattr(last.parent, last.attribute, made[id(last.module)])
    if not made:
        raise ValueError("no convolution to add a dictionary to: all have a kernel of 1, or a dictionary already")
    return model


def _end_of_unit(slot: Slot, following: dict[str, Slot], places: Counter[int]) -> Slot:
    """The last of the norm, the activation and the max pool behind a convolution, whichever of them there are.

    What hangs in several places, a ReLU for all of a model perhaps, may run behind other convolutions too, and ends the
    search.
    """
    for kinds in (NORM_CLASSES, ACTIVATIONS, _MAX_POOLS):
        after = following.get(slot.name)
        if places[id(slot.module)] == 1 and after is not None and isinstance(after.module, kinds):
            slot = after if places[id(after.module)] == 1 else slot
    return slot
