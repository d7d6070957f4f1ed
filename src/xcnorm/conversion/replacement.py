"""The layer in the place of a plain one: its arguments, its weights, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

from xcnorm.nn import NORMS, LayerForm, Relative, XCNormLayer
from xcnorm.nn.options import resolve

BARE = {"rectify": "none", "tau": "none", "norm": "none"}
"""Options of a layer that is the similarity alone."""


@dataclass(frozen=True)
class Replacement:
    """How layers are replaced in one conversion.

    Attributes:
        form: What is put in place.
        padding_mode: Of layers that padded with zeros.
        options: Options of the layers.
        rectify_first: ``rectify`` of the first layer; None leaves it to the options.
        first: The layer that sees the image.
        classifier: The model's classifier.
        own_stages: Whether XCNorm layers bring a rectifier and a norm of their own; else those of the model stay, and
            the layers are the similarity alone.
    """

    form: LayerForm
    padding_mode: str
    options: dict[str, Any]
    rectify_first: str | None
    first: nn.Module | None
    classifier: nn.Module | None
    own_stages: bool

    @property
    def activation(self) -> bool:
        """Whether the model's activations stay behind the layers."""
        return self.form.activation or (self.form.whole and not self.own_stages)

    @property
    def per_image(self) -> bool:
        """Whether the layers standardise each channel of each image."""
        if not (self.form.whole and self.own_stages):
            return False
        return NORMS[resolve(self.options, robust=self.form.robust, dense=False).norm].per_image

    def make(self, module: nn.Module, *, averaged: bool, normed: bool) -> nn.Module:
        """The layer for a plain one, with its weights.

        Args:
            module: A convolution or linear layer of torch's.
            averaged: Whether its output is averaged over positions without an activation that would help. The mean of a
                map normalised per image is zero, so it is not normalised.
            normed: Whether a norm follows that may stay, and then cancels a gain.
        """
        assert isinstance(module, _ConvNd | nn.Linear)
        options = dict(self.options)
        if module is self.first and self.rectify_first is not None:
            options["rectify"] = self.rectify_first
        if module is not self.first:
            options.pop("channelwise", None)  # an option of the layer that sees the colours
        if averaged:
            options["norm"] = "none"
        if self.form.whole and not self.own_stages:
            options = BARE | ({"gain": "none"} if normed else {}) | options
        if module is self.classifier and self.form.whole:
            options |= {"norm": "none", "rectify": "none"}  # logits have a sign, and their level says something
        where: dict[str, Any] = {"device": module.weight.device, "dtype": module.weight.dtype}
        cls: Any = self.form.layers[type(module)]
        layer: Any
        biased = module.bias is not None and self.form.bias
        if isinstance(module, nn.Linear):
            if NORMS[options.get("norm", "none")].per_image:
                options["norm"] = "batch"  # one value per channel and sample has no instance statistics
            layer = cls(module.in_features, module.out_features, **where, **options)
        else:
            mode = self.padding_mode if _pads_with_zeros(module) else module.padding_mode
            layer = cls(
                module.in_channels, module.out_channels, module.kernel_size, module.stride, module.padding,
                module.dilation, module.groups, biased, padding_mode=mode, **where, **options,
            )  # fmt: skip
        with torch.no_grad():
            # Where several filters stand for one, the others stay as they are: alike they could not part.
            layer.weight[:: len(layer.weight) // len(module.weight)].copy_(module.weight)
            if biased:
                layer.bias.copy_(module.bias)
            if isinstance(layer, Relative):
                layer.start()
        layer.weight.requires_grad_(module.weight.requires_grad)
        made: nn.Module = layer.train(module.training)
        return made

    def remarks(self, module: nn.Module, layer: nn.Module) -> Iterator[str]:
        """What is to be said of a layer in the place of another."""
        yield "weights kept as initial filters"
        if getattr(module, "bias", None) is not None and getattr(layer, "bias", None) is None:
            yield "bias dropped"
        if isinstance(module, _ConvNd) and layer.padding_mode != module.padding_mode:
            yield f"padding_mode={layer.padding_mode!r}"
        if isinstance(layer, XCNormLayer) and module is self.classifier:
            yield "the classifier: rectify='none', norm='none'"
            return
        if self.rectify_first is not None and module is self.first:
            yield f"rectify={self.rectify_first!r}"
        if isinstance(layer, XCNormLayer) and not self.own_stages:
            yield "the similarity alone"
        elif isinstance(layer, XCNormLayer) and layer.options.norm == "none" != self.options.get("norm"):
            yield "norm='none', as it is averaged without an activation that helps"


def _pads_with_zeros(module: _ConvNd) -> bool:
    return module.padding_mode == "zeros" and any(module._reversed_padding_repeated_twice)
