"""What all networks share: the layers they are made of, and how those stand in for one another."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor, nn

from xcnorm.errors import unknown_name
from xcnorm.nn import NORMS, XCNormLayer, make_norm
from xcnorm.nn.forms import Relative, find_form
from xcnorm.nn.options import rectify_of_first, resolve

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
        made_of: The arguments that `xcnorm.create_model` made it of; None if something else did.
    """

    made_of: dict[str, Any] | None = None

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
    """How a network is built: in which form, with which norms, and what rectifies its first layer.

    A network asks a wiring for its parts and so exists in all forms at once. In the XCNorm forms one layer takes the
    place of a convolution with its norm and its activation; of the other forms, each says what stays around it.

    Args:
        layer: The form, one of `xcnorm.nn.forms.FORMS`: ``"conv"``, ``"xcnorm"``, ``"r_xcnorm"``, or a relative.
        norm: One of `xcnorm.nn.NORMS`. None is what the form says: ``own_norm`` for ``"conv"`` and most relatives, and
            for the XCNorm forms that of the layers' preset.
        own_norm: The norm of the published network.
        rectify_first: ``"relu"``, ``"abs"`` or ``"none"``, for the first layer only. None is the network's own
            activation, if the form keeps any. For the XCNorm forms it is ``"abs"``, which measured best, unless
            ``preset="paper"`` or an explicit ``rectify`` says otherwise.
        dense: Hidden dense layers are ``"linear"`` (and a ReLU) or ``"xcnorm"``. None is ``"linear"``, except
            with an XCNorm form and ``preset="paper"``.
        **options: Options of the layers. Those of XCNorm layers are `xcnorm.nn.RobustOptions`; with ``layer="conv"``
            they go to dense XCNorm layers. ``channelwise`` goes to the first layer, which sees the colours: in a deep
            1x1 convolution a channel of a patch is a single value.

    Attributes:
        form: The form.
        whole: Whether one layer takes the place of a convolution with its norm and its activation.
        norm_kind: Name of the norm in use.

    Raises:
        ValueError: An argument or an option's value is unknown, or two of them do not go together.
        TypeError: An option is unknown, or there is no layer that could take it.
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
        self.form = find_form(layer)
        self.whole = self.form.whole
        for argument, value, known in (
            ("norm", own_norm if norm is None else norm, NORMS),
            ("rectify_first", "none" if rectify_first is None else rectify_first, RECTIFIERS),
            ("dense", "linear" if dense is None else dense, DENSE),
        ):
            if value not in known:
                raise ValueError(unknown_name(argument, value, known))
        paper = self.whole and options.get("preset") == "paper"
        self._dense = dense or ("xcnorm" if paper else "linear")
        if self._dense == "xcnorm" and issubclass(self.form.convolution, Relative):
            raise ValueError(f"dense='xcnorm' does not go with layer={layer!r}; leave dense out")

        # Instance statistics are undefined where there is one value per channel and image.
        dense_norm = {} if norm is None else {"norm": "batch" if NORMS[norm].per_image else norm}
        if not self.whole:
            self.norm_kind = norm or self.form.norm or own_norm
            self._rectify_first = rectify_first
            if self._dense == "linear":
                self.form.check_options(options)
            self._first_options = self._options = {} if self._dense == "xcnorm" else options
            self._dense_options = options | dense_norm
            return
        resolved = resolve(options, robust=self.form.robust, dense=False)
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

        A convolution whose patch has fewer than 16 values stays plain in the XCNorm forms.

        Args:
            channels_in: Input channels.
            channels_out: Output channels.
            kernel: Kernel size.
            stride: Stride.
            padding: Padding; with zeros as published, by replication in XCNorm layers, for which a zero is a value
                like any other.
            bias: Whether the convolution has a bias, in forms that can have one.
            activation: The network's own; None for none.
            first: Whether this is the network's first layer, the one ``rectify_first`` speaks of.
        """
        small = channels_in * kernel**2 < self.form.smallest_patch
        if first and small and "channelwise" in self._first_options:
            raise ValueError(
                f"channelwise is for the first layer, which stays plain here: a patch has "
                f"{channels_in * kernel**2} values, fewer than {self.form.smallest_patch}; leave it out"
            )
        size = (channels_in, channels_out, kernel, stride, padding)
        if small:
            convolution: nn.Module = nn.Conv2d(*size, bias=bias)
        else:
            convolution = self._layer(*size, bias=bias, first=first)
            if self.whole:
                return convolution
        parts = [convolution, self.norm(channels_out)]
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
        """A convolution on its own, for networks that normalise before it; or the layer in its place."""
        if self.whole:
            return self.unit(channels_in, channels_out, kernel, stride=stride, padding=padding, first=first)
        return self._layer(channels_in, channels_out, kernel, stride, padding, bias=False, first=first)

    def _layer(self, *size: int, bias: bool, first: bool) -> nn.Module:
        """The form's layer."""
        make: Any = self.form.convolution
        options = self._first_options if first else self._options
        return make(*size, bias=bias and self.form.bias, padding_mode=self.form.padding_mode, **options)

    def preactivation(self, channels: int, *, first: bool = False) -> nn.Module:
        """Norm and ReLU before a convolution; nothing before an XCNorm layer, which brings its own."""
        return nn.Identity() if self.whole else nn.Sequential(self.norm(channels), self.activation(first=first))

    def activation(self, own: type[nn.Module] = nn.ReLU, *, first: bool = False) -> nn.Module:
        """The network's own activation, or the one asked for after the first layer; nothing where the form has none."""
        if first and self._rectify_first is not None:
            return {"relu": nn.ReLU, "abs": Abs, "none": nn.Identity}[self._rectify_first]()
        return own() if self.form.activation or self.whole else nn.Identity()

    def before_pool(self, *, own: bool) -> nn.Module:
        """What stands before an average pool.

        Args:
            own: Whether the published network has a ReLU there.

        A ReLU stands wherever a norm's maps would be averaged: those that were just normalised per image have a mean
        of zero, so that without it nothing would come out of the pool.
        """
        unrectified = self.whole or (not self.form.activation and NORMS[self.norm_kind].per_image)
        return nn.ReLU() if unrectified or (own and self.form.activation) else nn.Identity()

    def max_pool(self, kernel: int, stride: int | None = None, padding: int = 0) -> nn.Module:
        """A max pool, or what the form has in its place."""
        make: Any = self.form.max_pool
        return make(kernel, stride, padding)

    def norm(self, channels: int) -> nn.Module:
        """A norm on its own, with a learnable scale and shift."""
        return make_norm(self.norm_kind, channels, positions=2, affine=True)

    def dense(self, features_in: int, features_out: int) -> nn.Module:
        """A hidden dense layer with its activation."""
        if self._dense == "linear":
            return nn.Sequential(nn.Linear(features_in, features_out), nn.ReLU())
        make: Any = find_form("r_xcnorm" if self.form.robust else "xcnorm").layers[nn.Linear]
        return make(features_in, features_out, **self._dense_options)


def global_pool() -> nn.Sequential:
    """Mean over all positions: maps ``(N, C, H, W)`` to vectors ``(N, C)``."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())


def initialise(network: Network, mode: Literal["fan_in", "fan_out"], *, zero_bias: bool = True) -> None:
    """He-normal weights for convolutions, plain or relatives; XCNorm layers know how to start.

    Args:
        network: The network.
        mode: Which side of a convolution keeps its variance.
        zero_bias: Whether the classifier starts without a bias.
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d) and not isinstance(module, XCNormLayer):
            nn.init.kaiming_normal_(module.weight, mode=mode, nonlinearity="relu")
            if isinstance(module, Relative):
                module.start()
    if zero_bias:
        nn.init.zeros_(network.classifier.bias)
