"""What is measured for the documentation beside what users can measure."""

from dataclasses import replace

import pytest
import torch

from benchmarks import layers
from benchmarks.layers import BACKENDS, axes, build, fit, grow, more_sides
from benchmarks.roofline import flop
from tests.bench.tiny import SHAPES
from xcnorm import ops
from xcnorm.bench.conditions import Conditions
from xcnorm.bench.shapes import LayerShape

SHAPE = LayerShape(4, 8, 6, 20, 3, 2, 1, "wrn16_4")
CPU = Conditions("cpu", "fp32")


def test_further_sides_have_the_same_geometry():
    assert {side.backend for side in BACKENDS} <= {backend.name for backend in ops.backends()}
    sides = [side for side in more_sides(SHAPE, "cpu") if side.backend is None]
    assert {build(side, SHAPE)(torch.randn(SHAPE.input_size)).shape for side in sides} == {(4, 6, 10, 10)}


def test_some_shapes_have_further_sides(monkeypatch):
    monkeypatch.setattr(layers, "shapes_of", lambda networks, device: SHAPES)
    first, second = layers.cases(["wrn16_4", "wrn40_2"], "cpu")
    assert [side.name for side in first.sides][5:8] == [*(side.name for side in BACKENDS), "weight-standardised conv"]
    assert len(second.sides) == 5
    assert second.details["flop"] == flop(SHAPES[1])


def test_the_reference_is_left_out_where_it_would_not_fit():
    reference = BACKENDS[1]
    assert reference in more_sides(SHAPE, "cpu")
    assert reference not in more_sides(replace(SHAPE, images=2**20), "cpu")


def test_growth(monkeypatch):
    monkeypatch.setattr(layers, "axes", lambda device: {"channels": {4: SHAPES[0], 64: SHAPES[1]}})
    rows = list(grow(CPU, 2))
    assert [(row["axis"], row["side"], row["sizes"]) for row in rows] == [
        ("channels", side, [4, 64]) for side in ("conv", "xcnorm", "r_xcnorm")
    ]


def test_every_axis_of_growth_has_several_sizes():
    found = axes("cuda")
    assert set(found) == {"images", "channels", "pixels", "kernel values"}
    assert all(len(set(sizes.values())) == len(sizes) >= 4 for sizes in found.values())


def test_fits():
    assert fit([1, 2, 4], [3, 6, 12]) == pytest.approx({"slope": 1.0, "r2": 1.0, "largest_step": 1.0})
    assert fit([2, 4, 8], [1, 4, 16]) == {"slope": 2.0, "r2": 1.0, "largest_step": 2.0}
    cliff = fit([1, 2, 4, 8], [1, 2, 12, 24])
    assert cliff["largest_step"] == 3.0
    assert cliff["r2"] < 1
