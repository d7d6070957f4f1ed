"""The gate lets through what is right, and nothing else."""

from dataclasses import replace

import pytest

from tests.bench.broken import break_layers
from xcnorm.bench.conditions import Conditions
from xcnorm.bench.gate import gate
from xcnorm.bench.shapes import LayerShape
from xcnorm.bench.sides import OURS

SHAPE = LayerShape(4, 8, 6, 20, 3, 2, 1, "wrn16_4")
CPU = Conditions("cpu", "fp32")

each_side = pytest.mark.parametrize("side", OURS, ids=lambda side: side.name)


@each_side
@pytest.mark.parametrize("channels", [3, 8])
def test_what_is_right_passes(side, channels):
    found = gate(side, replace(SHAPE, channels_in=channels), CPU)
    assert found["passed"]
    assert found["output"] < 1e-5
    assert found["backend"]


@each_side
@pytest.mark.parametrize(
    "wrong",
    [lambda value: value.flip(-1), lambda value: 2 * value - value.detach(), lambda value: value * float("nan")],
    ids=["output", "gradient", "nan"],
)
def test_what_is_wrong_does_not(side, wrong, monkeypatch):
    break_layers(monkeypatch, wrong)
    assert not gate(side, SHAPE, CPU)["passed"]


def test_shapes_that_are_alike_when_small_pass_one_gate():
    assert gate(OURS[0], SHAPE, CPU) is gate(OURS[0], replace(SHAPE, images=64, pixels=32), CPU)
