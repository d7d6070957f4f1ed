"""Properties that hold for every layer of the family, on random shapes and data (hypothesis)."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import xcnorm.functional as xf
import xcnorm.nn as xnn
from tests.nn.layers import BARE

F64 = torch.float64
ROBUST = [None, *xf.ROBUST_FUNCTIONS]


def make(cls=None, *arguments, robust=None, eps=1e-9, **options):
    """A bare layer in float64: the similarity and nothing after it."""
    if robust is not None:
        options = {"robust": robust, "scale": "parameter", "c_init": 1.3, **options}
    layer = cls(*arguments, dtype=F64, eps=eps, **{**BARE, **options})
    # The same filters for the same shape, so that an example hypothesis finds can be found again.
    layer.weight = torch.nn.Parameter(image(7, *layer.weight.shape))
    return layer


def conv(robust):
    return xnn.XCNormConv2d if robust is None else xnn.RXCNormConv2d


def image(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


seeds = st.integers(0, 2**31)
sizes = st.integers(1, 3)
robusts = st.sampled_from(ROBUST)


@given(seeds, robusts, sizes, sizes, st.integers(1, 2), st.booleans())
def test_bounded_by_one(seed, robust, kernel, channels, groups, channelwise):
    channels = max(2, channels) * groups
    channelwise = channelwise and kernel > 1
    layer = make(conv(robust), channels, 2 * groups, kernel, groups=groups, robust=robust, channelwise=channelwise)
    value = layer(10 * image(seed, 2, channels, 5, 5))
    assert value.abs().max() <= 1 + 1e-9


@given(seeds, sizes, sizes, st.floats(0.01, 100), st.floats(-10, 10))
def test_a_matching_patch_gives_one(seed, kernel, channels, factor, offset):
    layer = make(xnn.XCNormConv2d, channels + 1, 2, kernel, eps=1e-9)
    layer.weight = torch.nn.Parameter(image(seed, *layer.weight.shape))
    patch = layer.weight[1].detach() * factor + offset
    variance = patch.var(correction=0).item()
    expected = (variance / (variance + 1e-9)) ** 0.5  # one, but for epsilon
    assert layer(patch)[1].item() == pytest.approx(expected, abs=1e-6)
    assert layer(-patch)[1].item() == pytest.approx(-expected, abs=1e-6)


# With eps = 1e-9 and patches of about unit variance, a gain of 0.01 leaves a variance of 1e-4: the relative error
# of the norm is eps / (2 * 1e-4), 5e-6. Below that range epsilon starts to show, by design.
GAINS = st.floats(0.01, 1000)


@given(seeds, GAINS, st.floats(-100, 100), st.sampled_from([0, 1]), robusts)
def test_gain_and_offset_are_forgiven(seed, gain, offset, padding, robust):
    if robust is None:
        layer = make(xnn.XCNormConv2d, 3, 4, 3, padding=padding, padding_mode="replicate")
    else:
        layer = make(
            xnn.RXCNormConv2d, 3, 4, 3, padding=padding, padding_mode="replicate",
            robust=robust, scale="patch", c_init=2.0,
        )  # fmt: skip
    x = image(seed, 2, 3, 6, 6)
    torch.testing.assert_close(layer(gain * x + offset), layer(x), rtol=0, atol=1e-4)


def test_zero_padding_breaks_the_invariance_only_at_the_border():
    layer = make(xnn.XCNormConv2d, 3, 4, 3, padding=1)
    x = image(0, 1, 3, 6, 6)
    difference = (layer(x + 5) - layer(x)).abs()
    assert difference[..., 1:-1, 1:-1].max() < 1e-6
    assert difference.max() > 0.05


def test_an_offset_per_channel_is_forgiven_only_channelwise():
    x = image(0, 1, 3, 6, 6)
    cast = x * torch.tensor([0.5, 1.0, 3.0], dtype=F64).view(3, 1, 1) + torch.tensor([2.0, 0, -1], dtype=F64).view(
        3, 1, 1
    )
    plain, channelwise = (make(xnn.XCNormConv2d, 3, 4, 3, channelwise=c) for c in (False, True))
    assert (plain(cast) - plain(x)).abs().max() > 0.1
    torch.testing.assert_close(channelwise(cast), channelwise(x), rtol=0, atol=1e-5)


@given(seeds, robusts, st.permutations(range(4)))
def test_output_channels_are_equivariant(seed, robust, order):
    layer = make(conv(robust), 3, 4, 3, robust=robust)
    x = image(seed, 2, 3, 6, 6)
    expected = layer(x)[:, order]
    layer.weight = torch.nn.Parameter(layer.weight[order])
    torch.testing.assert_close(layer(x), expected)


@given(seeds, robusts, st.booleans())
def test_groups_are_a_concatenation(seed, robust, mask):
    options = {"robust": robust, "mask": mask}
    layer = make(conv(robust), 6, 4, 3, groups=2, **options)
    x = image(seed, 2, 6, 6, 6)
    if mask:
        torch.nn.init.normal_(layer.stages.mask.weight)
    halves = []
    for group in range(2):
        half = make(conv(robust), 3, 2, 3, **options)
        half.weight = torch.nn.Parameter(layer.weight[2 * group : 2 * group + 2])
        if mask:
            half.stages.mask.weight = torch.nn.Parameter(layer.stages.mask.weight[group : group + 1])
            half.stages.mask.bias = torch.nn.Parameter(layer.stages.mask.bias[group : group + 1])
        halves.append(half(x[:, 3 * group : 3 * group + 3]))
    torch.testing.assert_close(layer(x), torch.cat(halves, 1))


@given(seeds, robusts, st.sampled_from(["paper", "default"]))
def test_a_linear_layer_is_a_convolution_of_size_one(seed, robust, preset):
    options = {"preset": preset, "norm": "batch", "mask": False, "dtype": F64}
    if robust is not None:
        options["robust"] = robust
    dense = (xnn.XCNormLinear if robust is None else xnn.RXCNormLinear)(6, 4, **options)
    pointwise = conv(robust)(6, 4, 1, **options)
    pointwise.weight = torch.nn.Parameter(dense.weight[:, :, None, None])
    x = image(seed, 5, 6)
    torch.testing.assert_close(dense(x), pointwise(x[:, :, None, None])[:, :, 0, 0])


@given(seeds, robusts, st.integers(2, 3))
def test_stride_subsamples(seed, robust, stride):
    strided, every = (make(conv(robust), 2, 3, 3, stride=s, robust=robust) for s in (stride, 1))
    strided.weight = every.weight
    x = image(seed, 2, 2, 9, 8)
    torch.testing.assert_close(strided(x), every(x)[..., ::stride, ::stride])


@given(seeds)
def test_printed_welsch_ignores_polarity(seed):
    layer = make(xnn.RXCNormConv2d, 3, 4, 3, robust="welsch")
    x = image(seed, 2, 3, 6, 6)
    torch.testing.assert_close(layer(-x), layer(x))


@given(seeds)
def test_influence_form_with_an_infinite_scale_is_xcnorm(seed):
    robust = make(xnn.RXCNormConv2d, 3, 4, 3, robust="welsch_influence", c_init=1e7)
    plain = make(xnn.XCNormConv2d, 3, 4, 3)
    plain.weight = robust.weight
    x = image(seed, 2, 3, 6, 6)
    torch.testing.assert_close(robust(x), plain(x), rtol=0, atol=1e-9)


@given(seeds, robusts, st.floats(0.1, 10))
def test_only_the_direction_of_a_filter_matters(seed, robust, factor):
    layer = make(conv(robust), 3, 4, 3, robust=robust)
    x = image(seed, 2, 3, 6, 6)
    before = layer(x)
    with torch.no_grad():
        layer.weight.mul_(factor).add_(0.7)
    torch.testing.assert_close(layer(x), before)
