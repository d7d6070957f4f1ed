"""Descriptions: what a network is made of, in plain values from which it can be made again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from xcnorm.conversion.reversal import plain_layers
from xcnorm.conversion.tree import ACTIVATIONS
from xcnorm.errors import UserError, one_line
from xcnorm.models.create import create_model
from xcnorm.models.wiring import Network
from xcnorm.nn import FORMS, Relative, XCNormLayer
from xcnorm.nn.options import ROBUST_ONLY

_GEOMETRY = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode")
_DENSE = ("in_features", "out_features")
_WITHOUT_ARGUMENTS = {kind.__name__: kind for kind in (nn.Identity, *ACTIVATIONS)}


def describe(model: nn.Module) -> dict[str, Any]:
    """The description of a network: the arguments of `xcnorm.create_model`, and what a conversion put in afterwards.

    Of a network that `xcnorm.create_model` did not make it has the converted layers alone.

    Raises:
        UserError: It has something in it that a description has no words for, or was changed in another way.
    """
    changed = {
        f"{name}.{inner}".strip("."): module.get_submodule(inner)
        for name, module in model.named_modules()
        for inner in plain_layers(module)
    }
    network = model.made_of if isinstance(model, Network) else None
    description = {
        "network": network,
        "layers": {name: _describe_layer(name, module) for name, module in changed.items()},
    }
    if network is not None:
        with torch.device("meta"):
            again = make_again(json.loads(json.dumps(description)))
        _check_same(model, again)
    return description


def make_again(description: Mapping[str, Any], model: nn.Module | None = None) -> nn.Module:
    """Make the network of a description, with weights as they are drawn.

    Args:
        description: From anybody.
        model: The network before its conversion, where `xcnorm.create_model` did not make it.

    Raises:
        UserError: The description is damaged, or names what is unknown; or the model is missing, or one too many.
    """
    try:
        network, layers = description["network"], description["layers"]
        if (network is None) == (model is None):
            raise UserError(
                "create_model did not make this network: give it, as it was before its conversion, as model"
                if network is None
                else "create_model made this network: leave model out"
            )
        if network is not None:
            if "pretrained" in network:
                raise ValueError("it asks for another file")
            model = create_model(**network)
        assert model is not None
        for name, layer in layers.items():
            model = _put(model, name, _make(**layer))
    except UserError:
        raise
    except Exception as error:  # whatever a constructor has against its arguments
        raise UserError(f"the network cannot be made from its description: {one_line(error)}") from error
    return model


def _describe_layer(name: str, module: nn.Module) -> dict[str, Any]:
    """A layer that a conversion put in."""
    kind = type(module).__name__
    if _WITHOUT_ARGUMENTS.get(kind) is type(module):
        return {"kind": kind}
    for form in FORMS.values():
        for plain, layer in form.layers.items():
            if type(module) is layer and isinstance(module, XCNormLayer | Relative):
                return {"form": form.name, "kind": plain.__name__, "arguments": _arguments(module)}
    raise UserError(
        f"no description has words for {name or 'the model'}, a {kind}; keep the network's state_dict instead"
    )


def _arguments(layer: XCNormLayer | Relative) -> dict[str, Any]:
    names = _DENSE if isinstance(layer, nn.Linear) else _GEOMETRY
    values = {name: getattr(layer, name) for name in names}
    if isinstance(layer, XCNormLayer):
        options = {
            name: value for name, value in vars(layer.options).items() if layer.robust or name not in ROBUST_ONLY
        }
    else:
        options = {"bias": layer.bias is not None}
        for name in layer.option_names():
            value = getattr(layer, name)
            # Where an option is whether something is learnt, what is learnt, or None, has its name.
            options[name] = value is not None if value is None or isinstance(value, nn.Parameter) else value
    return values | options


def _make(kind: str, form: str | None = None, arguments: Mapping[str, Any] | None = None) -> nn.Module:
    """The way back."""
    if form is None:
        return _WITHOUT_ARGUMENTS[kind]()
    layers: dict[str, Any] = {plain.__name__: layer for plain, layer in FORMS[form].layers.items()}
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in (arguments or {}).items()}
    made: nn.Module = layers[kind](**values)
    return made


def _put(model: nn.Module, name: str, module: nn.Module) -> nn.Module:
    if not name:
        return module
    parent, _, attribute = name.rpartition(".")
    model.get_submodule(name)  # it is there
    setattr(model.get_submodule(parent), attribute, module)
    return model


def _check_same(model: nn.Module, again: nn.Module) -> None:
    """Refuse a network that is not what its description makes."""
    if repr(model) == repr(again):
        return
    there = dict(again.named_modules())
    for name, module in model.named_modules():
        if not list(module.children()) and repr(module) != repr(there.get(name)):
            raise UserError(
                f"create_model and convert do not make {name}, {one_line(module)}; "
                "keep the network's state_dict instead, and the code that builds it"
            )
    raise UserError(
        f"create_model and convert do not make a {type(model).__name__} such as this one; "
        "keep its state_dict instead, and the code that builds it"
    )
