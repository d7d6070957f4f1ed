"""The protocol of CIFAR-10-C on embedded digits: no download, no network."""

from __future__ import annotations

from pathlib import Path

from xcnorm.data.benchmarks.digits_mini import split_digits
from xcnorm.data.card import Card
from xcnorm.data.domain import Benchmark, Domain, LabelledImages
from xcnorm.data.grid import corrupted_targets
from xcnorm.data.parts import Part

CARD = Card(
    name="cifar10c-mini",
    title="CIFAR-10-C (mini)",
    summary="Learn 4,000 handwritten digits of MNIST; recognise 250 others under 19 corruptions at 5 severities.",
    classes=tuple("0123456789"),
    pixels=32,
    metric="accuracy",
    licence="MNIST: CC BY-SA 3.0.",
    citation="MNIST: LeCun et al. 1998; corruptions: Hendrycks and Dietterich 2019.",
)
PARTS: tuple[Part, ...] = ()

_EVERY = 4  # of the digits that are held out: each is tested ninety-five times


def load(root: Path, *, seed: int = 0) -> Benchmark:
    """Make the benchmark from embedded digits, in colour so that the corruptions have all they need.

    Args:
        root: Not looked at.
        seed: Seed of the corruptions.
    """
    train, held_out = (LabelledImages(part.images.repeat(1, 3, 1, 1), part.labels) for part in split_digits())
    held_out = LabelledImages(*(tensor[::_EVERY].contiguous() for tensor in held_out))
    return Benchmark(
        CARD,
        CARD.title,
        CARD.classes,
        train=Domain("mnist", *train),
        validation=Domain("mnist", *held_out),
        targets=corrupted_targets(held_out, seed=seed),
    )
