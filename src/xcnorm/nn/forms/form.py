"""What a form of a layer is, and where all of them are known by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from torch import nn

from xcnorm.errors import unknown_name
from xcnorm.nn.forms.relative import Relative
from xcnorm.nn.layer import XCNormLayer
from xcnorm.registry import Registry


@dataclass(frozen=True)
class LayerForm:
    """What stands in the place of a network's convolutions, and what stays around it.

    Attributes:
        name: What ``layer=`` calls it.
        layers: The layer in the place of each of torch's classes.
        norm: The norm of its networks, where none is asked for; None is the network's own.
        activation: Whether the network's activations stay.
        max_pool: What pools where the network has a max pool.
        smallest_patch: Convolutions with fewer values in a patch stay plain.
        padding_mode: How its networks pad.
    """

    name: str
    layers: Mapping[type[nn.Module], type[nn.Module]]
    norm: str | None = None
    activation: bool = True
    max_pool: type[nn.Module] = nn.MaxPool2d
    smallest_patch: int = 1
    padding_mode: str = "zeros"

    @property
    def convolution(self) -> type[nn.Module]:
        """What stands in the place of a `torch.nn.Conv2d`."""
        return self.layers[nn.Conv2d]

    @property
    def whole(self) -> bool:
        """Whether its layers are XCNorm layers, which bring norm and activation as stages of their own."""
        return issubclass(self.convolution, XCNormLayer)

    @property
    def robust(self) -> bool:
        """Whether its layers are R-XCNorm layers."""
        return self.whole and bool(getattr(self.convolution, "robust", False))

    @property
    def bias(self) -> bool:
        """Whether its layers can have a bias."""
        return not self.whole and bool(getattr(self.convolution, "can_have_bias", True))

    def check_options(self, names: Mapping[str, object]) -> None:
        """Look whether a layer without stages takes these options.

        Raises:
            TypeError: It does not.
        """
        known = self.convolution.option_names() if issubclass(self.convolution, Relative) else []
        if names and not known:
            given = ", ".join(map(repr, names))
            raise TypeError(f"layer={self.name!r} has no layer options, got {given}; use layer='xcnorm' or 'r_xcnorm'")
        for name in names:
            if name not in known:
                raise TypeError(unknown_name(f"option of layer {self.name!r}", name, known))


FORMS: Registry[LayerForm] = Registry("layer", "xcnorm.nn.forms")
"""Every form by name."""


def register_form(form: LayerForm) -> LayerForm:
    """Make a form known by its name, as ``layer=`` takes it."""
    return FORMS.register(form.name, form)


def find_form(name: str) -> LayerForm:
    """Look a form up by name.

    Raises:
        UserError: The name is unknown; the message lists the known ones.

    Example:
        >>> find_form("xcnorm").convolution.__name__
        'XCNormConv2d'
    """
    return FORMS[name]


R = TypeVar("R", bound=type[Relative])


def register_relative(
    name: str, *, norm: str | None = None, activation: bool = True, max_pool: type[nn.Module] = nn.MaxPool2d
) -> Callable[[R], R]:
    """Make a class known as the layer of that name. Its keyword-only arguments are the layer's options.

    Args:
        name: What ``layer=`` calls it.
        norm: The norm of its networks, where none is asked for; None is the network's own.
        activation: Whether the network's activations stay behind it.
        max_pool: What pools where the network has a max pool.
    """

    def register(cls: R) -> R:
        register_form(LayerForm(name, {nn.Conv2d: cls}, norm=norm, activation=activation, max_pool=max_pool))
        return cls

    return register
