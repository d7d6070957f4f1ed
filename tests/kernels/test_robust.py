"""Robust functions of a user's own inside the kernels."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest
import torch

import xcnorm.nn as xnn
from tests.kernels.test_correlate import Case, check
from xcnorm import ops
from xcnorm.functional import ROBUST_FUNCTIONS
from xcnorm.functional.robust import RobustFunction
from xcnorm.ops import dispatch

if TYPE_CHECKING:
    import triton.language as tl

IMAGE = torch.randn(1, 2, 5, 5)


def kernel(t: tl.tensor, EXACT: tl.constexpr) -> tuple[tl.tensor, tl.tensor]:
    size = tl.abs(t)
    h = tl.log(1 + size)
    return tl.where(t < 0, -h, h), 1 / (1 + size)


@pytest.fixture
def logarithm(monkeypatch):
    """Register an unbounded robust function, ``sign(t) log(1 + |t|)``; with a kernel form or without."""

    def register(kernel=None):
        function = RobustFunction(
            "logarithm", lambda t: t.sign() * t.abs().log1p(), lambda t: 1 / (1 + t.abs()), kernel=kernel
        )
        assert "logarithm" not in ROBUST_FUNCTIONS
        monkeypatch.setitem(ROBUST_FUNCTIONS._items, "logarithm", function)
        return xnn.RXCNormConv2d(2, 3, 3, robust="logarithm")

    return register


@pytest.mark.parametrize("per_patch", [False, True])
@pytest.mark.parametrize("tf32", [False, True])
def test_it_runs_with_a_kernel_form(logarithm, monkeypatch, per_patch, tf32):
    """Unbounded, it cannot be kept in float16: in a unit for values up to 1 the largest would be infinite."""
    layer = logarithm(kernel)
    assert ops.explain(layer, IMAGE).backend == "triton"
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", tf32)
    case = Case((2, 3, 4, 5), 4, padding=(1, 1, 1, 1))
    x, weight, c = case.data("logarithm", c=0.1)
    x[0, 0, 0, 0] = 1e4
    check(case, "logarithm", per_patch=per_patch, data=(x, weight, c), floor=2**-9 if tf32 else None)


def test_it_is_refused_without_one(logarithm, monkeypatch):
    layer = logarithm()
    monkeypatch.setattr(dispatch, "_told", set())
    reason = "the robust function 'logarithm' has no form for kernels, .* 17 times .* give its RobustFunction a kernel"
    with pytest.warns(UserWarning, match=reason):
        assert ops.explain(layer, IMAGE).backend == "cpu"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(IMAGE)  # told once
    monkeypatch.setenv("XCNORM_BACKEND", "triton")
    with pytest.raises(ValueError, match=f"XCNORM_BACKEND='triton' cannot run this layer: {reason}"):
        layer(IMAGE)
