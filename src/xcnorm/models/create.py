"""The networks by name: any file of this folder, and any plugin, may register some."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xcnorm.models.wiring import Network, Wiring
from xcnorm.registry import Registry

Build = Callable[[Wiring, int, int], Network]


@dataclass(frozen=True)
class Blueprint:
    """What is registered of a network; see `register_model`."""

    build: Build
    norm: str = "batch"
    hidden_dense: bool = False


MODELS: Registry[Blueprint] = Registry("model", "xcnorm.models")


def register_model(name: str, *, norm: str = "batch", hidden_dense: bool = False) -> Callable[[Build], Build]:
    """Make a function known as the builder of the network ``name``.

    Args:
        name: What `create_model` calls the network.
        norm: The norm of its published, convolutional form.
        hidden_dense: Whether it has dense layers besides its classifier.

    Returns:
        A decorator for a function that takes a `Wiring`, the number of classes and of input channels.
    """

    def register(build: Build) -> Build:
        MODELS.register(name, Blueprint(build, norm, hidden_dense))
        return build

    return register


def list_models() -> list[str]:
    """Names of all networks, sorted.

    Example:
        >>> "wrn16_4" in list_models()
        True
    """
    return list(MODELS)


def create_model(
    name: str,
    layer: str = "conv",
    norm: str | None = None,
    num_classes: int = 10,
    *,
    in_channels: int = 3,
    rectify_first: str | None = None,
    dense: str | None = None,
    pretrained: Path | str | None = None,
    **layer_options: Any,
) -> Network:
    """Make a network, plain or on XCNorm layers.

    Args:
        name: One of `list_models`.
        layer: The form, one of `xcnorm.nn.FORMS`: ``"conv"``, the network as published; ``"xcnorm"`` or ``"r_xcnorm"``,
            the same network with these layers in place of its convolutions, their norms and their activations; or a
            relative, such as ``"bcos"``, in place of its convolutions.
        norm: One of `xcnorm.nn.NORMS`, for every norm of the network, inside and outside of the layers. None is the
            network's own for ``"conv"`` and most relatives, and for the XCNorm forms what their preset says:
            ``"instance"``, with ``preset="paper"`` ``"batch"``. Dense XCNorm layers have no statistics of single images
            and take ``"batch"`` instead.
        num_classes: Number of classes.
        in_channels: Channels of the images.
        rectify_first: ``"relu"``, ``"abs"`` or ``"none"``: what rectifies the first layer. None is the network's
            own activation, if the form keeps it. For the XCNorm forms it is ``"abs"``, which measured best, unless
            ``preset="paper"`` or an explicit ``rectify`` says otherwise.
        dense: Hidden dense layers, where the network has any (``digits_cnn``): ``"linear"`` with a ReLU, or
            ``"xcnorm"``, possible with ``layer="conv"`` too. None is ``"linear"``, except for the XCNorm forms
            with ``preset="paper"``.
        pretrained: Where its weights are: a folder of `xcnorm.save_pretrained`, which must be of such a network, or a
            ``.safetensors`` file, such as a run's. None leaves them as they are drawn.
        **layer_options: Options of the layers; those of XCNorm layers are in `xcnorm.nn.RobustOptions`, those of a
            relative in its class. ``channelwise`` goes to the first layer only.

    Raises:
        ValueError: A name or value is unknown, or the network has no hidden dense layers to replace, or the weights are
            not such a network's.
        TypeError: An option is unknown, or there is no layer that could take it.

    Example:
        >>> import torch
        >>> network = create_model("wrn16_4", "xcnorm", num_classes=7, mask=True)
        >>> network(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 7])
        >>> network.features(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 256])
    """
    blueprint = MODELS[name]
    for argument, value in (("num_classes", num_classes), ("in_channels", in_channels)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{argument} must be an integer, got {value!r}")
        if value < 1:
            raise ValueError(f"{argument} must be at least 1, got {value!r}")
    wiring = Wiring(layer, norm, own_norm=blueprint.norm, rectify_first=rectify_first, dense=dense, **layer_options)
    if dense == "xcnorm" and not blueprint.hidden_dense:
        raise ValueError(
            f"dense='xcnorm' has nothing to replace in {name!r}: its only dense layer is the classifier, which is "
            "always linear; leave dense out"
        )
    network = blueprint.build(wiring, num_classes, in_channels)
    network.made_of = {
        "name": name, "layer": layer, "norm": norm, "num_classes": num_classes, "in_channels": in_channels,
        "rectify_first": rectify_first, "dense": dense, **layer_options,
    }  # fmt: skip
    if pretrained is not None:
        from xcnorm.models.pretrained import load_weights  # which imports this module

        load_weights(network, Path(pretrained))
    return network
