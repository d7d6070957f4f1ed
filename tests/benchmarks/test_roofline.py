"""The work of layers, and what a device can do."""

import pytest

from benchmarks import roofline
from benchmarks.roofline import ceilings, flop, moved, positions
from xcnorm.bench.conditions import Conditions
from xcnorm.bench.shapes import LayerShape


@pytest.mark.parametrize(("channels", "times"), [(3, 2), (8, 3)])
def test_the_work_of_a_layer(channels, times):
    """The first layer has no gradient of its input."""
    shape = LayerShape(2, channels, 5, 9, 3, 2, 1)
    assert positions(shape) == 2 * 5 * 5
    assert flop(shape) == times * 2 * (2 * 5 * 5) * (channels * 9) * 5
    assert moved(shape) == times * 2 * channels * 81 + 3 * (channels * 9 * 5 + 2 * 25 * 5)


def test_ceilings(monkeypatch):
    monkeypatch.setitem(roofline._COPIED, "cpu", 2**20)
    monkeypatch.setitem(roofline._MULTIPLIED, "cpu", 64)
    assert all(value > 1e6 for value in ceilings(Conditions("cpu", "fp32")).values())
