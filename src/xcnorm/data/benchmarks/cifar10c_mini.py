"""The protocol of CIFAR-10-C on embedded digits: no download, no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from xcnorm.data.benchmarks import digits_mini
from xcnorm.data.catalogue import register_benchmark
from xcnorm.data.domain import Benchmark, Domain, LabelledImages
from xcnorm.data.grid import corrupted_targets

CARD = replace(
    digits_mini.CARD,
    name="cifar10c-mini",
    title="CIFAR-10-C (mini)",
    summary="Learn 4,000 handwritten digits of MNIST; recognise 250 others under 19 corruptions at 5 severities.",
    licence="MNIST: CC BY-SA 3.0.",
    citation="MNIST: LeCun et al. 1998; corruptions: Hendrycks and Dietterich 2019.",
)

_EVERY = 4  # of the digits that are held out: each is tested ninety-five times


@register_benchmark(CARD)
def load(root: Path, *, corruptions: Sequence[str] | None = None, seed: int = 0) -> Benchmark:
    """Make the benchmark from embedded digits, in colour so that the corruptions have all they need.

    Args:
        root: Not looked at.
        corruptions: Which corruptions; the nineteen published ones unless given.
        seed: Seed of the corruptions.
    """
    train, test = digits_mini.split_digits()
    clean = LabelledImages(test.images[::_EVERY].repeat(1, 3, 1, 1), test.labels[::_EVERY].contiguous())
    return Benchmark(
        CARD,
        CARD.title,
        CARD.classes,
        train=Domain("mnist", train.images.repeat(1, 3, 1, 1), train.labels),
        validation=Domain("mnist", *clean),
        targets=corrupted_targets(clean, corruptions=corruptions, seed=seed),
    )
