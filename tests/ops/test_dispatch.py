"""Which backend runs, how to choose another, and what is said about it."""

import dataclasses
import warnings

import pytest
import torch

import xcnorm
from xcnorm import ops
from xcnorm.ops import dispatch


@pytest.fixture
def layer():
    return xcnorm.RXCNormConv2d(2, 3, 3)


IMAGE = torch.randn(1, 2, 5, 5)


def test_defaults_on_a_cpu(layer):
    explanation = ops.explain(layer, IMAGE)
    assert explanation.backend == "cpu"
    assert "highest priority" in str(explanation)
    explanation = ops.explain(layer.double(), IMAGE.double())
    assert explanation.backend == "plain"
    assert "not cpu: it computes in float32" in str(explanation)


def test_environment_chooses(layer, monkeypatch):
    monkeypatch.setenv("XCNORM_BACKEND", "reference")
    assert ops.explain(layer, IMAGE).backend == "reference"
    assert "XCNORM_BACKEND" in ops.explain(layer, IMAGE).reason


def test_argument_beats_environment(monkeypatch):
    monkeypatch.setenv("XCNORM_BACKEND", "reference")
    explanation = ops.explain(xcnorm.XCNormConv2d(2, 3, 3, backend="plain"), IMAGE)
    assert explanation.backend == "plain"


def test_the_chosen_backend_is_the_one_that_runs(layer, monkeypatch):
    ran = []

    def spy(*arguments):
        ran.append("plain")
        return original.respond(*arguments)

    original = next(b for b in ops.backends() if b.name == "plain")
    spied = dataclasses.replace(original, respond=spy)
    monkeypatch.setattr(dispatch, "_backends", [spied if b is original else b for b in ops.backends()])
    layer.double()(IMAGE.double())
    monkeypatch.setenv("XCNORM_BACKEND", "reference")
    layer(IMAGE.double())
    assert ran == ["plain"]


def test_unknown_backend_is_one_clear_line(layer, monkeypatch):
    monkeypatch.setenv("XCNORM_BACKEND", "plian")
    with pytest.raises(ValueError, match="unknown XCNORM_BACKEND 'plian'; did you mean 'plain'"):
        layer(IMAGE)


def test_a_backend_that_cannot_is_passed_over_with_its_reason(layer, monkeypatch):
    picky = dataclasses.replace(
        ops.backends()[0], name="picky", priority=99, unsupported=lambda x, correlation: "only likes 7x7 kernels"
    )
    broken = dataclasses.replace(ops.backends()[-1], name="broken", priority=98, unavailable=lambda: "no such device")
    monkeypatch.setattr(dispatch, "_backends", [picky, broken, *ops.backends()])
    explanation = ops.explain(layer, IMAGE)
    assert explanation.backend == "cpu"
    assert "not picky: only likes 7x7 kernels" in explanation.reason
    assert "not broken: no such device" in explanation.reason
    with pytest.raises(ValueError, match="backend='picky' cannot run this layer: only likes 7x7 kernels"):
        dispatch.choose(IMAGE, layer.correlation, "picky")


@pytest.mark.parametrize("available", [True, False])
def test_a_costly_reason_is_told_once_where_the_backend_could_run(layer, monkeypatch, available):
    costly = dataclasses.replace(
        ops.backends()[0],
        name="costly",
        priority=99,
        unsupported=lambda x, correlation: dispatch.Costly("give it a kernel"),
        unavailable=lambda: None if available else "no such device",
    )
    monkeypatch.setattr(dispatch, "_backends", [costly, *ops.backends()])
    monkeypatch.setattr(dispatch, "_told", set())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            layer(IMAGE)
    assert [str(warning.message) for warning in caught] == ["give it a kernel"] * available


def test_explaining_something_else_is_refused():
    with pytest.raises(TypeError, match="got Conv2d"):
        ops.explain(torch.nn.Conv2d(2, 3, 3), IMAGE)
