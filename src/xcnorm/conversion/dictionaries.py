"""A dictionary after every convolution of any model."""

from __future__ import annotations

from typing import Any

from torch import nn

from xcnorm.conversion.tree import list_slots
from xcnorm.nn import Dictionary, Rebuilt


def add_dictionaries(model: nn.Module, **options: Any) -> nn.Module:
    """Let every convolution's output be rebuilt from a dictionary. The model is changed and returned; train it.

    Convolutions are torch's and ours, which bring their norm and rectifier along. Those with a kernel of a single
    position see no local pattern, and stay as they are: shortcuts remain linear. A convolution that runs in several
    places has one dictionary for all of them; one that has a dictionary already gets no second.

    Args:
        model: Any module tree.
        **options: Options of `xcnorm.nn.Dictionary`.

    Returns:
        The model; or the convolution with its dictionary, if the model was a single one.

    Raises:
        ValueError: An option's value is not possible, or there is no convolution with a kernel larger than 1.

    Example:
        >>> model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Conv2d(32, 10, 1))
        >>> [type(module).__name__ for module in add_dictionaries(model, words=64)]
        ['Rebuilt', 'ReLU', 'Rebuilt', 'ReLU', 'Conv2d']
    """
    made: dict[int, Rebuilt] = {}
    for slot in list(list_slots(model)):
        layer = slot.module
        if not isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d) or isinstance(slot.parent, Rebuilt):
            continue
        if all(size == 1 for size in layer.kernel_size):
            continue
        if id(layer) not in made:
            where: dict[str, Any] = {"device": layer.weight.device, "dtype": layer.weight.dtype}
            made[id(layer)] = Rebuilt(layer, Dictionary(layer.out_channels, **options, **where)).train(layer.training)
        if slot.parent is None:
            return made[id(layer)]
        setattr(slot.parent, slot.attribute, made[id(layer)])
    if not made:
        raise ValueError("nothing to add a dictionary to: the model has no convolution with a kernel larger than 1")
    return model
