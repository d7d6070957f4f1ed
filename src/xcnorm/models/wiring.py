"""What all networks share: the layers they are made of, and how those stand in for one another."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor, nn

from xcnorm.errors import unknown_name
from xcnorm.nn import (
    NORMS,
    RXCNormConv2d,
    RXCNormLinear,
    XCNormConv2d,
    XCNormLayer,
    XCNormLinear,
    make_norm,
)
from xcnorm.nn.layer import SMALLEST_PATCH
from xcnorm.nn.options import rectify_of_first, resolve

LAYERS = ("conv", "xcnorm", "r_xcnorm")
RECTIFIERS = ("relu", "abs", "none")
DENSE = ("linear", "xcnorm")


class Network(nn.Module):
    """Base of all networks: a trunk that ends in one vector per image, and a linear classifier.

    Args:
        trunk: From images ``(N, C, H, W)`` to embeddings ``(N, embedding_size)``.
        embedding_size: Length of an embedding.
        num_classes: Number of classes.

    Attributes:
        trunk: The network without its classifier.
        classifier: Always a plain `torch.nn.Linear`: a rectified, normalised similarity makes no logit.
        embedding_size: Length of an embedding.
    """

    def __init__(self, trunk: nn.Sequential, embedding_size: int, num_classes: int) -> None:
        super().__init__()
        self.embedding_size = embedding_size
        self.trunk = trunk
        self.classifier = nn.Linear(embedding_size, num_classes)

    def features(self, input: Tensor) -> Tensor:
        """Images ``(N, C, H, W)`` to their embeddings ``(N, embedding_size)``, what the classifier sees."""
        embedding: Tensor = self.trunk(input)
        return embedding

    def forward(self, input: Tensor) -> Tensor:
        """Images ``(N, C, H, W)`` to logits ``(N, num_classes)``."""
        logits: Tensor = self.classifier(self.features(input))
        return logits


class Abs(nn.Module):
    """Absolute value as an activation: a filter answers to its negative as well."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return input.abs()


class Wiring:
    """How a network is built: plain or on XCNorm layers, with which norms, and what rectifies its first layer.

    A network asks a wiring for its parts and so exists in all forms at once. In the XCNorm forms one layer takes the
    place of a convolution with its norm and its activation.

    Args:
        layer: ``"conv"``, ``"xcnorm"`` or ``"r_xcnorm"``.
        norm: ``"batch"``, ``"instance"``, ``"group"``, ``"layer"`` or ``"none"``. None is ``own_norm`` for
            ``"conv"``, and for the XCNorm forms what the layers' preset says.
        own_norm: The norm of the published network.
        rectify_first: ``"relu"``, ``"abs"`` or ``"none"``, for the first layer only. None is the network's own
            activation for ``"conv"``. For the XCNorm forms it is ``"abs"``, which measured best, unless
            ``preset="paper"`` or an explicit ``rectify`` says otherwise.
        dense: Hidden dense layers are ``"linear"`` (and a ReLU) or ``"xcnorm"``. None is ``"linear"``, except
            with an XCNorm form and ``preset="paper"``.
        **options: Options of the XCNorm layers; see `xcnorm.nn.RobustOptions`. ``channelwise`` goes to the first
            layer, which sees the colours: in a deep 1x1 convolution a channel of a patch is a single value.

    Attributes:
        plain: Whether the network is made of plain convolutions.
        norm_kind: Name of the norm in use.

    Raises:
        ValueError: An argument or an option's value is unknown.
        TypeError: An option is unknown, or there is no XCNorm layer that could take it.
    """

    def __init__(
        self,
        layer: str = "conv",
        norm: str | None = None,
        *,
        own_norm: str = "batch",
        rectify_first: str | None = None,
        dense: str | None = None,
        **options: Any,
    ) -> None:
        for argument, value, known in (
            ("layer", layer, LAYERS),
            ("norm", own_norm if norm is None else norm, NORMS),
            ("rectify_first", "none" if rectify_first is None else rectify_first, RECTIFIERS),
            ("dense", "linear" if dense is None else dense, DENSE),
        ):
            if value not in known:
                raise ValueError(unknown_name(argument, value, known))
        self.plain = layer == "conv"
        self._robust = layer == "r_xcnorm"
        paper = not self.plain and options.get("preset") == "paper"
        self._dense = dense or ("xcnorm" if paper else "linear")
        if self.plain and self._dense == "linear" and options:
            names = ", ".join(map(repr, options))
            raise TypeError(f"layer='conv' has no layer options, got {names}; use layer='xcnorm' or 'r_xcnorm'")

        # Instance statistics are undefined where there is one value per channel and image.
        dense_norm = {} if norm is None else {"norm": "batch" if norm == "instance" else norm}
        if self.plain:
            self.norm_kind = norm or own_norm
            self._rectify_first = rectify_first
            self._dense_options = options | dense_norm
            return
        resolved = resolve(options, robust=self._robust, dense=False)
        self.norm_kind = norm or resolved.norm
        self._rectify_first = rectify_of_first(rectify_first, options) or resolved.rectify
        deeper = {name: value for name, value in options.items() if name != "channelwise"}
        self._first_options = options | {"norm": self.norm_kind, "rectify": self._rectify_first}
        self._options = deeper | {"norm": self.norm_kind}
        self._dense_options = deeper | dense_norm

    def unit(
        self,
        channels_in: int,
        channels_out: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: int = 0,
        bias: bool = False,
        activation: type[nn.Module] | None = nn.ReLU,
        first: bool = False,
    ) -> nn.Module:
        """Convolution, norm and activation; or the XCNorm layer in place of all three.

        A convolution whose patch has fewer than 16 values stays plain in every form.

        Args:
            channels_in: Input channels.
            channels_out: Output channels.
            kernel: Kernel size.
            stride: Stride.
            padding: Padding; with zeros in plain convolutions, by replication in XCNorm layers, for which a zero
                is a value like any other.
            bias: Whether the plain convolution has a bias.
            activation: The plain network's own; None for none.
            first: Whether this is the network's first layer, the one ``rectify_first`` speaks of.
        """
        if not self.plain and channels_in * kernel**2 >= SMALLEST_PATCH:
            layer = RXCNormConv2d if self._robust else XCNormConv2d
            options = self._first_options if first else self._options
            return layer(channels_in, channels_out, kernel, stride, padding, padding_mode="replicate", **options)
        if first and not self.plain and "channelwise" in self._first_options:
            raise ValueError(
                f"channelwise is for the first layer, which stays plain here: a patch has "
                f"{channels_in * kernel**2} values, fewer than {SMALLEST_PATCH}; leave it out"
            )
        parts = [
            nn.Conv2d(channels_in, channels_out, kernel, stride, padding, bias=bias),
            self.norm(channels_out),
        ]
        if activation is not None:
            parts.append(self.activation(activation, first=first))
        return nn.Sequential(*parts)

    def convolution(
        self,
        channels_in: int,
        channels_out: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: int = 0,
        first: bool = False,
    ) -> nn.Module:
        """A convolution on its own, for networks that normalise before it; or the XCNorm layer in its place."""
        if self.plain:
            return nn.Conv2d(channels_in, channels_out, kernel, stride, padding, bias=False)
        return self.unit(channels_in, channels_out, kernel, stride=stride, padding=padding, first=first)

    def preactivation(self, channels: int, *, first: bool = False) -> nn.Module:
        """Norm and ReLU before a convolution; nothing before an XCNorm layer, which brings its own."""
        return nn.Sequential(self.norm(channels), self.activation(first=first)) if self.plain else nn.Identity()

    def activation(self, own: type[nn.Module] = nn.ReLU, *, first: bool = False) -> nn.Module:
        """The network's own activation, or the one asked for after the first layer."""
        if not first or self._rectify_first is None:
            return own()
        return {"relu": nn.ReLU, "abs": Abs, "none": nn.Identity}[self._rectify_first]()

    def norm(self, channels: int) -> nn.Module:
        """A norm on its own, with a learnable scale and shift."""
        return make_norm(self.norm_kind, channels, positions=2, affine=True)

    def dense(self, features_in: int, features_out: int) -> nn.Module:
        """A hidden dense layer with its activation."""
        if self._dense == "linear":
            return nn.Sequential(nn.Linear(features_in, features_out), nn.ReLU())
        layer = RXCNormLinear if self._robust else XCNormLinear
        return layer(features_in, features_out, **self._dense_options)


def global_pool() -> nn.Sequential:
    """Mean over all positions: maps ``(N, C, H, W)`` to vectors ``(N, C)``."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())


def initialise(network: Network, mode: Literal["fan_in", "fan_out"], *, zero_bias: bool = True) -> None:
    """He-normal weights for the plain convolutions; XCNorm layers know how to start.

    Args:
        network: The network.
        mode: Which side of a convolution keeps its variance.
        zero_bias: Whether the classifier starts without a bias.
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d) and not isinstance(module, XCNormLayer):
            nn.init.kaiming_normal_(module.weight, mode=mode, nonlinearity="relu")
    if zero_bias:
        nn.init.zeros_(network.classifier.bias)
