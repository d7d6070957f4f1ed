"""Which weights are kept is decided by the benchmark's own score."""

import torch

from tests.engine import small
from xcnorm.data import card
from xcnorm.evaluate.complete import _judge


def test_the_benchmarks_own_score_judges(monkeypatch):
    probabilities = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
    labels = torch.tensor([0, 0, 0, 1])
    benchmark = small.benchmark()
    assert _judge(benchmark)(probabilities, labels) == 0.75
    object.__setattr__(benchmark, "card", card("camelyon17"))  # scored by AUROC: the order is perfect
    assert _judge(benchmark)(probabilities, labels) == 1.0
    object.__setattr__(benchmark, "card", card("breakhis"))  # balanced accuracy
    assert _judge(benchmark)(probabilities, labels) == 0.5
