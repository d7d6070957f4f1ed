"""Digits in small, from what comes with packages: no download, no network."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from xcnorm.data.card import Card
from xcnorm.data.domain import Benchmark, Domain, LabelledImages, Targets
from xcnorm.data.embedded import mnist5k, optdigits, photographs
from xcnorm.data.parts import Part
from xcnorm.data.synthesis import blend, invert, low_contrast, render_syn
from xcnorm.data.transforms import resize
from xcnorm.errors import UserError

CARD = Card(
    name="digits-mini",
    title="Digits (mini)",
    summary="Learn 4,000 handwritten digits of MNIST; recognise digits of another making (optdigits), blended into "
    "photographs, rendered from fonts, inverted, and pale. Everything comes with Python packages.",
    classes=tuple("0123456789"),
    pixels=32,
    metric="accuracy",
    licence="MNIST: CC BY-SA 3.0; optdigits: CC BY 4.0; photographs: CC BY 2.0; fonts: free licences.",
    citation="MNIST: LeCun et al. 1998; optdigits: Alpaydin and Kaynak 1998; MNIST-M and SYN recipes: Ganin and "
    "Lempitsky 2015.",
)
PARTS: tuple[Part, ...] = ()

_HELD_OUT = 100  # of the 500 of each class
_RENDERED = 2000


def load(root: Path) -> Benchmark:
    """Make the benchmark from the packages' data; the data root is not looked at.

    Targets are made from digits that are not in the training set. What is random in them is fixed: every user and
    every seed of training meets the same targets.
    """
    train, held_out = split_digits()
    makers: dict[str, Callable[[], Domain]] = {
        "optdigits": _optdigits,
        "mnist_m": lambda: Domain(
            "mnist_m", blend(held_out.images, photographs()), held_out.labels, "blended by xcnorm"
        ),
        "syn_rendered": _syn_rendered,
        "inverted": lambda: Domain("inverted", invert(held_out.images), held_out.labels),
        "low_contrast": lambda: Domain("low_contrast", low_contrast(held_out.images), held_out.labels),
    }
    domains, missing = {}, {}
    for name, make in makers.items():
        try:
            domains[name] = make()
        except UserError as error:  # a package that it comes with is missing
            missing[name] = str(error)
    return Benchmark(
        CARD,
        CARD.title,
        CARD.classes,
        train=Domain("mnist", *train),
        validation=Domain("mnist", *held_out),
        targets=Targets({name: partial(domains.__getitem__, name) for name in domains}),
        missing=missing,
    )


def _optdigits() -> Domain:
    digits = optdigits()
    return Domain("optdigits", resize(digits.images, CARD.pixels), digits.labels)


def _syn_rendered() -> Domain:
    labels = torch.arange(_RENDERED) % 10
    return Domain("syn_rendered", render_syn(labels), labels, "rendered by xcnorm")


def split_digits() -> tuple[LabelledImages, LabelledImages]:
    """The embedded MNIST digits at 32 pixels: 400 of each class to train on, 100 to test on."""
    digits = mnist5k()  # sorted by class, 500 each
    images = resize(digits.images, CARD.pixels).unflatten(0, (10, -1))
    labels = digits.labels.unflatten(0, (10, -1))
    return (
        LabelledImages(images[:, _HELD_OUT:].flatten(0, 1), labels[:, _HELD_OUT:].flatten()),
        LabelledImages(images[:, :_HELD_OUT].flatten(0, 1), labels[:, :_HELD_OUT].flatten()),
    )
