"""Every kind of layer in a network as small as it can be: what is soaked."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

import xcnorm.nn as xnn
from xcnorm.functional import ROBUST_FUNCTIONS
from xcnorm.nn.dictionary import Dictionary
from xcnorm.nn.forms.angular import ANGULAR
from xcnorm.nn.forms.decoupled import BOUNDED, UNBOUNDED

CHANNELS, CLASSES = 4, 2
SHAPES = {"dense": (8, 12), "1d": (6, 2, 8), "2d": (4, 2, 5, 5), "3d": (2, 2, 4, 4, 4)}
"""A batch of each rank."""


class Tiny(nn.Module):
    """A layer, the mean over positions, and a plain classifier.

    Attributes:
        rank: Which of `SHAPES` it takes.
    """

    def __init__(self, layer: nn.Module, rank: str) -> None:
        super().__init__()
        self.layer, self.rank, self.head = layer, rank, nn.Linear(CHANNELS, CLASSES)

    def forward(self, input: Tensor) -> Tensor:
        output = self.layer(input)
        return self.head(output.flatten(2).mean(2) if output.ndim > 2 else output)


def _xcnorm() -> dict[str, Callable[[], Tiny]]:
    plain, robust = xnn.XCNormConv2d, xnn.RXCNormConv2d

    def conv(cls: type[nn.Module], rank: str = "2d", **options: object) -> Callable[[], Tiny]:
        return lambda: Tiny(cls(SHAPES[rank][1], CHANNELS, 3, padding=1, **options), rank)

    def dense(cls: type[nn.Module], **options: object) -> Callable[[], Tiny]:
        return lambda: Tiny(cls(SHAPES["dense"][1], CHANNELS, **options), "dense")

    found = {
        "xcnorm paper": conv(plain, preset="paper"),
        "xcnorm abs": conv(plain, rectify="abs"),
        "xcnorm unrectified": conv(plain, rectify="none", norm="batch"),
        "xcnorm gain after": conv(plain, gain="after_norm", tau="none", norm="batch"),
        "xcnorm masked": conv(plain, mask=True, norm="group"),
        "xcnorm channelwise": conv(plain, channelwise=True, norm="batch"),
        "xcnorm grouped": conv(plain, groups=2, stride=2, padding_mode="reflect", norm="batch"),
        "xcnorm 1d": conv(xnn.XCNormConv1d, "1d", norm="batch"),
        "xcnorm 3d": conv(xnn.XCNormConv3d, "3d", norm="batch"),
        "xcnorm dense": dense(xnn.XCNormLinear),
        "r_xcnorm paper": conv(robust, preset="paper"),
        "r_xcnorm paper channelwise": conv(robust, preset="paper", channelwise=True),
        "r_xcnorm 1d": conv(xnn.RXCNormConv1d, "1d", preset="paper"),
        "r_xcnorm 3d": conv(xnn.RXCNormConv3d, "3d", preset="paper"),
        "r_xcnorm dense": dense(xnn.RXCNormLinear, preset="paper"),
    }
    for norm in xnn.NORMS:
        found[f"xcnorm {norm}"] = conv(plain, norm=norm)
    for name in ROBUST_FUNCTIONS:
        for scale in xnn.REDUCTIONS:
            found[f"r_xcnorm {name} {scale}"] = conv(robust, robust=name, scale=scale, norm="batch")
    return found


def _relatives() -> dict[str, Callable[[], Tiny]]:
    def relative(name: str, **options: object) -> Callable[[], Tiny]:
        cls = xnn.FORMS[name].convolution
        return lambda: Tiny(
            nn.Sequential(cls(2, CHANNELS, 3, padding=1, **options), xnn.make_norm("batch", CHANNELS, 2)), "2d"
        )

    found = {name: relative(name) for name, form in xnn.FORMS.items() if not form.whole and name != "conv"}
    found["kervolution gaussian"] = relative("kervolution", kernel="gaussian")
    for angular in ANGULAR:
        found[f"decoupled {angular}"] = relative("decoupled", angular=angular)
    for magnitude in BOUNDED + UNBOUNDED:
        found[f"decoupled |z| {magnitude}"] = relative("decoupled", magnitude=magnitude)
    return found


def _dictionary() -> Tiny:
    words = Dictionary(CHANNELS, words=8, chosen=2)
    return Tiny(nn.Sequential(xnn.XCNormConv2d(2, CHANNELS, 3, padding=1), words), "2d")


VARIANTS: dict[str, Callable[[], Tiny]] = {**_xcnorm(), **_relatives(), "dictionary": _dictionary}
"""A network of each kind, by name."""


def batch(rank: str, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Noise of any brightness and contrast, now and then with something hard in it, and classes that it shows."""
    shape = SHAPES[rank]
    values = torch.randn(shape, generator=generator)
    labels = (values[:, : shape[1] // 2].flatten(1).mean(1) > 0).long()
    contrast, brightness, kind = torch.rand(3, generator=generator).tolist()
    values = values * 100 ** (2 * contrast - 1) + 10 * brightness
    if kind < 0.01:
        values.zero_()
    elif kind < 0.02:
        values.fill_(brightness)
    elif kind < 0.03:
        values[0].view(-1)[0] = 1e4
    elif kind < 0.04:
        values[:, :1] = 0
    elif kind < 0.05:
        values *= 1e-8
    return values, labels
