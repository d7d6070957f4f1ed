"""Whatever the arguments and shapes, a layer gives what torch's own gives in shape, or refuses as torch's does."""

from __future__ import annotations

import os
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import xcnorm.nn as xnn
from tests.nn.layers import BARE, CONVOLUTIONS

EXAMPLES = int(os.environ.get("XCNORM_EXAMPLES", "150"))  # thousands in the long form

# What torch's layers do and ours do not, each with its reason.
OURS_ALONE = (
    "a patch of one value has no correlation",
    "must be at least 1, got",  # torch makes layers without channels or features
    "must be an integer or",  # torch takes one number in a tuple for all axes, in some places
    "padding must not be negative",  # which torch takes to mean that borders are cut off
)
LENGTHS = st.sampled_from((1, 2, 3, 1, 2, 3, 1, 2, 3, 5, 0, -1))
CHANNELS = st.sampled_from((1, 2, 3, 4, 6, 2, 4, 6, 0, -2))


def per_axis(lengths, rank):
    """One number, or one for each axis; seldom too many or too few of them."""
    axes = st.sampled_from((rank,) * 8 + (rank + 1, max(rank - 1, 0)))
    return lengths | axes.flatmap(lambda count: st.tuples(*[lengths] * count))


@st.composite
def geometries(draw, rank):
    """The arguments of a convolution, mostly good ones."""
    groups = draw(st.sampled_from((1, 1, 1, 2, 2, 3, 0, -1)))
    paddings = st.sampled_from((0, 1, 2, 0, 1, 2, 4, -1))
    return {
        "in_channels": draw(CHANNELS) * (groups if draw(st.integers(0, 9)) else 1),
        "out_channels": draw(CHANNELS) * (groups if draw(st.integers(0, 9)) else 1),
        "kernel_size": draw(per_axis(LENGTHS, rank)),
        "stride": draw(st.just(1) | per_axis(LENGTHS, rank)),
        "padding": draw(per_axis(paddings, rank) | st.sampled_from(("same", "valid", "some"))),
        "dilation": draw(st.just(1) | per_axis(LENGTHS, rank)),
        "groups": groups,
        "padding_mode": draw(st.sampled_from(("zeros", "zeros", "reflect", "replicate", "circular", "mirror"))),
    }


@st.composite
def shapes(draw, rank, channels):
    """The shape of an input, mostly one that fits; one axis more than that, or fewer, is a batch or something wrong."""
    axes = draw(st.sampled_from((rank,) * 9 + (rank - 1, rank + 1)))
    sizes = [draw(st.sampled_from((3, 4, 5, 7, 9, 3, 4, 5, 7, 9, 1, 2, 0))) for _ in range(axes)]
    wrong = draw(st.integers(0, 9)) == 0
    batch = draw(st.sampled_from(((2,), (2,), (1,), (), (0,))))
    return (*batch, max(channels + wrong, 0), *sizes)


def outcome(cls, arguments, shape):
    """The shape of the output, or what was raised."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return tuple(cls(**arguments)(torch.randn(shape)).shape)
    except Exception as error:
        return error


def compare(torchs, ours, arguments, options, shape, torchs_own=False):
    """Both give the same shape, or refuse; ours in one line, or in torch's own words where those may come through."""
    expected, found = outcome(torchs, arguments, shape), outcome(ours, {**arguments, **options}, shape)
    if isinstance(found, tuple):
        assert found == expected
        return
    if torchs_own and isinstance(expected, RuntimeError):
        assert isinstance(found, ValueError | TypeError | RuntimeError), repr(found)
        return
    assert type(found) in (ValueError, TypeError), repr(found)
    assert "\n" not in str(found)
    known = any(reason in str(found) for reason in OURS_ALONE)
    assert known or isinstance(expected, Exception), f"{found!r} where torch gives {expected}"


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutions(rank, robust):
    torchs, ours = CONVOLUTIONS[rank][0], CONVOLUTIONS[rank][1 + robust]

    @settings(max_examples=EXAMPLES)
    @given(st.data())
    def check(data):
        arguments = data.draw(geometries(rank))
        shape = data.draw(shapes(rank, arguments["in_channels"]))
        compare(torchs, ours, arguments, BARE, shape)

    check()


@pytest.mark.parametrize("form", [name for name, form in xnn.FORMS.items() if not form.whole and name != "conv"])
def test_relatives(form):
    @settings(max_examples=EXAMPLES // 5)
    @given(st.data())
    def check(data):
        arguments = data.draw(geometries(2))
        shape = data.draw(shapes(2, arguments["in_channels"]))
        compare(nn.Conv2d, xnn.FORMS[form].convolution, arguments, {}, shape, torchs_own=True)

    check()


@pytest.mark.parametrize("robust", [False, True])
def test_dense_layers(robust):
    ours = xnn.RXCNormLinear if robust else xnn.XCNormLinear

    @settings(max_examples=EXAMPLES // 2)
    @given(CHANNELS, CHANNELS, st.lists(st.integers(0, 3), max_size=3), st.integers(0, 1))
    def check(inputs, outputs, batch, wrong):
        arguments = {"in_features": inputs, "out_features": outputs}
        shape = (*batch, max(inputs + wrong * (len(batch) % 2), 0))
        compare(nn.Linear, ours, arguments, BARE, shape)

    check()
