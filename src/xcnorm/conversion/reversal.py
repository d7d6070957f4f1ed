"""The way back: the plain layers that a conversion took out, put in place again."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from xcnorm.conversion.report import detach_report
from xcnorm.conversion.tree import list_slots
from xcnorm.nn import XCNormLayer

# The attribute of a converted model that its plain layers are kept in, in a dictionary: torch sees no modules there.
_ATTRIBUTE = "_xcnorm_plain"
_AVERAGES = "_xcnorm_averages"


@dataclass(frozen=True)
class Plain:
    """A layer that was taken out.

    Attributes:
        module: The layer.
        leader: Name of the converted layer because of which it was; its own, if it is that one.
        end: Of a converted layer: name of the activation or the norm that ended it, whether or not that stayed.
    """

    module: nn.Module
    leader: str
    end: str = ""


def keep_plain(model: nn.Module, plain: dict[str, Plain]) -> None:
    """Keep with a model what was taken out of it. What an earlier conversion took out stays with it."""
    model.__dict__[_ATTRIBUTE] = {**plain, **model.__dict__.get(_ATTRIBUTE, {})}


def plain_layers(model: nn.Module) -> dict[str, Plain]:
    """What was taken out of a model, by name."""
    plain: dict[str, Plain] = model.__dict__.get(_ATTRIBUTE, {})
    return plain


def keep_averages(model: nn.Module) -> None:
    """Keep with a model the moving averages of its own norms, before they are set; those kept earlier stay."""
    ours = {id(inner) for module in model.modules() if isinstance(module, XCNormLayer) for inner in module.modules()}
    found = {
        name: {each: value.clone() for each, value in module._buffers.items() if value is not None}
        for name, module in model.named_modules()
        if isinstance(module, _BatchNorm) and id(module) not in ours
    }
    model.__dict__[_AVERAGES] = {**found, **model.__dict__.get(_AVERAGES, {})}


def forget_plain(model: nn.Module) -> None:
    """Forget what a conversion kept with a model and with all that is inside: there is no way back then."""
    for module in model.modules():
        for attribute in (_ATTRIBUTE, _AVERAGES):
            module.__dict__.pop(attribute, None)


def revert(model: nn.Module) -> nn.Module:
    """Put the plain layers back that `convert` took out. The model is changed and returned.

    They come back as they were, weights and moving averages included, and so do moving averages that `calibrate` has
    set, so that a model that was converted and reverted gives what it gave before, bit for bit. What was trained in
    between is lost in the layers that were converted, and stays in all others. The plain layers follow the model in
    training mode, and to the device and dtype that it was moved to.

    Args:
        model: A model that `convert` returned, or one with such models inside.

    Returns:
        The model; or the plain layer, if the model was a single one.

    Raises:
        ValueError: Nothing in the model was converted.

    Example:
        >>> from xcnorm import convert
        >>> model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 10, 1)).eval()
        >>> images = torch.rand(2, 3, 8, 8)
        >>> before = model(images)
        >>> torch.equal(revert(convert(model))(images), before)
        True
    """
    found = False
    for slot in list(list_slots(model)):
        plain: dict[str, Plain] | None = slot.module.__dict__.get(_ATTRIBUTE)
        if plain is None:
            continue
        found = True
        leaders = {each.leader for each in plain.values()}
        moved = {name: _moved(plain[name].module, slot.module.get_submodule(name)) for name in leaders}
        for name, each in plain.items():
            if (place := moved[each.leader]) is not None:
                each.module.to(*place)
            if (training := slot.module.get_submodule(name).training) != each.module.training:
                each.module.train(training)
        for name, each in plain.items():
            parent, _, attribute = name.rpartition(".")
            if name:
                setattr(slot.module.get_submodule(parent), attribute, each.module)
            elif slot.parent is not None:
                setattr(slot.parent, slot.attribute, each.module)
            else:
                model = each.module
    if not found:
        raise ValueError("this model was not converted, so there is nothing to revert")
    for module in list(model.modules()):
        for name, averages in module.__dict__.pop(_AVERAGES, {}).items():
            norm = module.get_submodule(name)
            for each, value in averages.items():
                norm.get_buffer(each).copy_(value)
        module.__dict__.pop(_ATTRIBUTE, None)
        detach_report(module)
    return model


def _moved(before: nn.Module, now: nn.Module) -> tuple[torch.device, torch.dtype] | None:
    """Where the weight of a layer has gone since it took another's place; None if it stayed."""
    was, weight = before.weight, now.weight
    assert isinstance(was, torch.Tensor)
    assert isinstance(weight, torch.Tensor)
    place = weight.device, weight.dtype
    return None if place == (was.device, was.dtype) else place
