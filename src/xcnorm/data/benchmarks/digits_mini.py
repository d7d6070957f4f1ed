"""Digits in small, from what comes with packages: no download, no network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from xcnorm.data.benchmarks import digits
from xcnorm.data.catalogue import register_benchmark
from xcnorm.data.domain import Benchmark, Domain
from xcnorm.data.embedded import mnist5k, optdigits, photographs
from xcnorm.data.synthesis import blend, invert, low_contrast

CARD = replace(
    digits.CARD,
    name="digits-mini",
    title="Digits (mini)",
    summary="Learn 4,000 handwritten digits of MNIST; recognise digits of another making (optdigits), blended into "
    "photographs, rendered from fonts, inverted, and pale. Everything comes with Python packages.",
    licence="MNIST: CC BY-SA 3.0; optdigits: CC BY 4.0; photographs: CC BY 2.0; fonts: free licences.",
    citation="MNIST: LeCun et al. 1998; optdigits: Alpaydin and Kaynak 1998; MNIST-M and SYN recipes: Ganin and "
    "Lempitsky 2015.",
    files=(),
)

_HELD_OUT = 100  # of the 500 of each class
_RENDERED = 2000


@register_benchmark(CARD)
def load(root: Path) -> Benchmark:
    """Make the benchmark from the packages' data; the data root is not looked at.

    Targets are made from digits that are not in the training set. What is random in them is fixed: every user and
    every seed of training meets the same targets.
    """
    train, test = split_digits()
    images, labels = test.images, test.labels
    targets, missing = digits.make_all(
        {
            "optdigits": lambda: digits.at_32_pixels("optdigits", optdigits()),
            "mnist_m": lambda: Domain("mnist_m", blend(images, photographs()), labels, "blended by xcnorm"),
            "syn_rendered": lambda: digits.rendered(_RENDERED),
            "inverted": lambda: Domain("inverted", invert(images), labels),
            "low_contrast": lambda: Domain("low_contrast", low_contrast(images), labels),
        }
    )
    return Benchmark(CARD, CARD.title, CARD.classes, train, test, targets, missing)


def split_digits() -> tuple[Domain, Domain]:
    """The embedded MNIST digits at 32 pixels: 400 of each class to train on, 100 to test on."""
    every = digits.at_32_pixels("mnist", mnist5k())  # sorted by class, 500 each
    images, labels = every.images.unflatten(0, (10, -1)), every.labels.unflatten(0, (10, -1))
    return (
        Domain("mnist", images[:, _HELD_OUT:].flatten(0, 1), labels[:, _HELD_OUT:].flatten()),
        Domain("mnist", images[:, :_HELD_OUT].flatten(0, 1), labels[:, :_HELD_OUT].flatten()),
    )
