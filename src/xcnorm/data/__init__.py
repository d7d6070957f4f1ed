"""Data: benchmarks with one source and many targets, readers, corruptions, and what feeds them to a network.

`load` gives a benchmark by name; `list_benchmarks` says which there are.
"""

from xcnorm.data import corruptions, readers, synthesis, transforms
from xcnorm.data.card import Card
from xcnorm.data.catalogue import card, list_benchmarks, load, register_benchmark
from xcnorm.data.domain import Benchmark, Domain, LabelledImages, Targets
from xcnorm.data.embedded import mnist5k, optdigits, photographs
from xcnorm.data.grid import corrupted_targets
from xcnorm.data.sampler import Sampler

__all__ = [
    "Benchmark",
    "Card",
    "Domain",
    "LabelledImages",
    "Sampler",
    "Targets",
    "card",
    "corrupted_targets",
    "corruptions",
    "list_benchmarks",
    "load",
    "mnist5k",
    "optdigits",
    "photographs",
    "readers",
    "register_benchmark",
    "synthesis",
    "transforms",
]
