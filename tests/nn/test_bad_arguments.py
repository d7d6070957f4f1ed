"""Every bad argument gets one line with the argument, its value and the remedy."""

import pytest
import torch

import xcnorm.nn as xnn

CONV = xnn.XCNormConv2d
ROBUST = xnn.RXCNormConv2d


@pytest.mark.parametrize(
    ("layer", "arguments", "options", "error", "message"),
    [
        (CONV, (3, 4, 3), {"stride": -1}, ValueError, "stride must be at least 1, got -1"),
        (CONV, (3, 4, 0), {}, ValueError, "kernel_size must be at least 1, got 0"),
        (CONV, (3, 4, 3), {"dilation": (1, 0)}, ValueError, r"dilation must be at least 1, got \(1, 0\)"),
        (CONV, (3, 4, 3), {"padding": -1}, ValueError, "padding must not be negative, got -1"),
        (CONV, (3, 4, 3), {"padding": "some"}, ValueError, "padding 'some'; did you mean 'same'"),
        (CONV, (3, 4, 3), {"padding": "same", "stride": 2}, ValueError, "padding='same' needs stride 1, got stride=2"),
        (CONV, (3, 4, 3.0), {}, TypeError, "kernel_size must be an integer.*got 3.0"),
        (CONV, (4, 6, 3), {"groups": 3}, ValueError, "groups=3 does not divide in_channels=4"),
        (CONV, (6, 4, 3), {"groups": 3}, ValueError, "groups=3 does not divide out_channels=4"),
        (CONV, (3, 4, 3), {"bias": True}, ValueError, "bias=True.*use bias=False"),
        (CONV, (3, 4, 3), {"padding_mode": "mirror"}, ValueError, "padding_mode 'mirror'.*'reflect'"),
        (CONV, (1, 4, 1), {}, ValueError, "a patch of one value has no correlation"),
        (CONV, (3, 4, 3), {"rectify": "gelu"}, ValueError, "rectify 'gelu'.*'relu'"),
        (CONV, (3, 4, 3), {"gain": "after"}, ValueError, "gain 'after'; did you mean 'after_norm'"),
        (CONV, (3, 4, 3), {"norm": None}, ValueError, "norm None.*'none'"),
        (CONV, (3, 4, 3), {"tau": 0.2}, ValueError, "tau must be above 0.5 or 'none', got 0.2"),
        (CONV, (3, 4, 3), {"tau": "off"}, TypeError, "tau must be a number above 0.5 or 'none', got 'off'"),
        (CONV, (3, 4, (3, 3, 3)), {}, ValueError, r"kernel_size must be an integer or 2 of them, got \(3, 3, 3\)"),
        (CONV, (3, 4, 3), {"stride": (1, 1, 1)}, ValueError, "stride must be an integer or 2 of them"),
        (CONV, (3, 4, 3), {"padding": (1,)}, ValueError, "padding must be an integer or 2 of them"),
        (CONV, (3, 4, 3), {"groups": (1, 1)}, ValueError, "groups must be an integer, got"),
        (CONV, (3, 4, 1), {"channelwise": True}, ValueError, "channelwise=True needs a kernel larger than 1"),
        (ROBUST, (3, 4, 3), {"scale": "ema", "c_init": 1e-3}, ValueError, "c_init must be above 0.003"),
        (CONV, (3, 4, 3), {"mask": "yes"}, TypeError, "mask must be True or False, got 'yes'"),
        (CONV, (3, 4, 3), {"eps": 0.0}, ValueError, "eps must be above 0, got 0.0"),
        (CONV, (3, 4, 3), {"momentum": 2}, ValueError, "momentum must be at most 1, got 2"),
        (CONV, (3, 4, 3), {"preset": "papre"}, ValueError, "preset 'papre'; did you mean 'paper'"),
        (CONV, (3, 4, 3), {"robust": "huber"}, TypeError, "option 'robust'"),
        (CONV, (3, 4, 3), {"rectfy": "abs"}, TypeError, "option 'rectfy'; did you mean 'rectify'"),
        (ROBUST, (3, 4, 3), {"robust": "welch"}, ValueError, "robust 'welch'; did you mean 'welsch'"),
        (ROBUST, (3, 4, 3), {"scale": "moving"}, ValueError, "scale 'moving'.*'ema'"),
        (ROBUST, (3, 4, 3), {"c_init": -1.0}, ValueError, "c_init must be above 0, got -1.0"),
        (xnn.XCNormLinear, (8, 4), {"norm": "instance"}, ValueError, "norm='instance' is undefined for a dense layer"),
        (xnn.XCNormLinear, (8, 4), {"channelwise": True}, ValueError, "channelwise=True needs a kernel larger than 1"),
        (xnn.XCNormLinear, (8, 4), {"bias": True}, ValueError, "bias=True"),
        (xnn.XCNormLinear, (0, 4), {}, ValueError, "in_features must be at least 1, got 0"),
        (xnn.XCNormLinear, (1, 4), {}, ValueError, "a patch of one value has no correlation"),
    ],
)  # fmt: skip
def test_constructor(layer, arguments, options, error, message):
    with pytest.raises(error, match=message) as caught:
        layer(*arguments, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("layer", "input", "error", "message"),
    [
        (CONV(3, 4, 3), torch.randn(5, 5), ValueError, r"must have 4 axes.*got shape \(5, 5\)"),
        (CONV(3, 4, 3), torch.randn(1, 1, 3, 5, 5), ValueError, "must have 4 axes"),
        (CONV(3, 4, 3), torch.randn(2, 4, 5, 5), ValueError, "input has 4 channels.*made for 3"),
        (CONV(4, 4, 3, groups=2), torch.randn(2, 3, 5, 5), ValueError, "input has 3 channels.*made for 4"),
        (CONV(3, 4, 3), torch.ones(2, 3, 5, 5, dtype=torch.uint8), TypeError, r"got torch.uint8.*input.float\(\)"),
        (CONV(3, 4, 3), torch.randn(2, 3, 5, 5).double(), TypeError, "float64 but the layer is torch.float32"),
        (CONV(3, 4, 3), torch.randn(2, 3, 2, 5), ValueError, "does not fit the padded input"),
        (CONV(3, 4, 3, dilation=3), torch.randn(2, 3, 5, 5), ValueError, "dilation=.*does not fit"),
        (CONV(3, 4, 3, padding=5, padding_mode="reflect"), torch.randn(2, 3, 5, 5), ValueError, "pad 5 .* onto 5"),
        (CONV(3, 4, 3, padding=6, padding_mode="circular"), torch.randn(2, 3, 5, 5), ValueError, "pad 6 .* onto 5"),
        (xnn.XCNormLinear(8, 4), torch.randn(2, 7), ValueError, "input has 7 channels.*made for 8"),
        (xnn.XCNormLinear(8, 4), torch.tensor(1.0), ValueError, "at least one axis"),
        (xnn.XCNormLinear(8, 4), torch.ones(2, 8, dtype=torch.int64), TypeError, "got torch.int64"),
    ],
)  # fmt: skip
def test_input(layer, input, error, message):
    with pytest.raises(error, match=message):
        layer(input)


def test_unknown_norm():
    with pytest.raises(ValueError, match="norm 'bacth'; did you mean 'batch'"):
        xnn.make_norm("bacth", 4, 2)
