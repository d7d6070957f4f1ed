"""The gate lets through what is right, and nothing else."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from xcnorm.bench import sides
from xcnorm.bench.shapes import Shape
from xcnorm.bench.sides import BY_BACKEND, OURS, PLAIN, gate, make, opponents
from xcnorm.ops import dispatch

SHAPE = Shape(4, 8, 6, 20, 3, 2, 1, "wrn16_4")


def break_backends(monkeypatch, wrong):
    """Have all backends but the reference answer with ``wrong(value)``."""

    def broken(backend):
        def similarity(*arguments):
            right = backend.similarity(*arguments)
            return right._replace(value=wrong(right.value))

        return backend if backend.name == "reference" else replace(backend, similarity=similarity, respond=None)

    monkeypatch.setattr(dispatch, "_BACKENDS", tuple(map(broken, dispatch.backends())))
    monkeypatch.setattr(sides, "_gate", sides._gate.__wrapped__)  # which would remember what was right


@pytest.mark.parametrize("side", [*OURS, *BY_BACKEND])
@pytest.mark.parametrize("channels", [3, 8])
def test_what_is_right_passes(side, channels):
    found = gate(side, replace(SHAPE, channels_in=channels), "fp32", "cpu")
    assert found["passed"]
    assert found["output"] < 1e-5
    assert found["backend"]


@pytest.mark.parametrize("side", OURS)
@pytest.mark.parametrize(
    "wrong",
    [lambda value: value.flip(-1), lambda value: 2 * value - value.detach(), lambda value: value * float("nan")],
    ids=["output", "gradient", "nan"],
)
def test_what_is_wrong_does_not(side, wrong, monkeypatch):
    break_backends(monkeypatch, wrong)
    assert not gate(side, SHAPE, "fp32", "cpu")["passed"]


def test_all_sides_have_the_same_geometry():
    names = [PLAIN, *OURS, *opponents(SHAPE, "cpu")]
    assert {make(side, SHAPE)(torch.randn(SHAPE.input_size)).shape for side in names} == {(4, 6, 10, 10)}
    assert [type(part) for part in make(PLAIN, SHAPE)] == [nn.Conv2d, nn.BatchNorm2d, nn.ReLU]


def test_the_reference_is_left_out_where_it_would_not_fit():
    assert "r_xcnorm reference" in opponents(SHAPE, "cpu")
    assert "r_xcnorm reference" not in opponents(replace(SHAPE, images=2**20), "cpu")


def test_shapes_that_are_alike_when_small_pass_one_gate():
    assert gate("xcnorm", SHAPE, "fp32", "cpu") is gate("xcnorm", replace(SHAPE, images=64, pixels=32), "fp32", "cpu")
