"""Accuracy far from zero, and finite numbers where the printed formula has none."""

import pytest
import torch

import xcnorm.functional as xf
import xcnorm.nn as xnn
from tests.nn.layers import BARE, LAYERS, input_for
from xcnorm.ops.reference import cut_patches

ROBUST = [None, *xf.ROBUST_FUNCTIONS]


def by_the_book(layer, x, robust):
    """The plain torch formula, in the dtype of its input: unfold, centre, divide."""
    patches = cut_patches(x, layer.correlation)[..., 0, :]
    weight = layer.weight.to(x.dtype).flatten(1)
    if robust is None:
        return xf.ncc(patches, weight).movedim(-1, 1)
    c = 3.0 * xf.patch_deviation(patches)
    return xf.robust_ncc(patches, weight, c, robust).movedim(-1, 1)


@pytest.mark.parametrize("offset", [0.0, 1e2, 1e4])
@pytest.mark.parametrize("robust", ROBUST)
@pytest.mark.parametrize("channels", [3, 64])
@pytest.mark.parametrize("padding_mode", ["zeros", "replicate"])
def test_offsets_cost_no_more_accuracy_than_the_plain_formula(offset, robust, channels, padding_mode):
    options = {} if robust is None else {"robust": robust, "scale": "patch", "c_init": 3.0}
    layer = (xnn.XCNormConv2d if robust is None else xnn.RXCNormConv2d)(
        channels, 8, 3, padding=1, padding_mode=padding_mode, **BARE, **options
    )
    x = torch.randn(4, channels, 12, 12) + offset
    exact = by_the_book(layer, x.double(), robust)
    ours = (layer(x).double() - exact).abs().max()
    plain = (by_the_book(layer, x, robust).double() - exact).abs().max()
    assert ours <= 10 * plain, f"error {ours:.1e}, plain formula {plain:.1e}"


LOCAL = {
    "hot pixel": lambda: torch.rand(1, 3, 32, 32).index_put_(
        tuple(torch.tensor([[0], [1], [9], [9]])), torch.tensor(1e6)
    ),
    "step of 255": lambda: 0.05 * torch.randn(1, 3, 32, 32) + 255.0 * (torch.arange(32) > 15),
    "step of 4095": lambda: torch.randn(1, 64, 32, 32) + 4095.0 * (torch.arange(32) > 15),
    "ramp": lambda: 0.01 * torch.randn(1, 3, 32, 32) + torch.linspace(-50, 50, 32),
}


@pytest.mark.parametrize("robust", ROBUST)
@pytest.mark.parametrize("name", LOCAL)
def test_texture_beside_something_bright_is_not_drowned(name, robust):
    """One level per image does not help where an image has several: the statistics must not cancel there either."""
    x = LOCAL[name]()
    options = {} if robust is None else {"robust": robust, "scale": "patch", "c_init": 3.0}
    cls = xnn.XCNormConv2d if robust is None else xnn.RXCNormConv2d
    layer = cls(x.shape[1], 8, 3, padding=1, padding_mode="replicate", **BARE, **options)
    exact = by_the_book(layer, x.double(), robust)
    ours = layer(x).double()
    assert ours.abs().max() <= 1 + 1e-5
    plain = (by_the_book(layer, x, robust).double() - exact).abs().max()
    # The plain formula centres every patch before it multiplies. We multiply first, so the rounding of a product far
    # from zero shows, relative to the texture's norm: at most 3.1e-4 on these images, over five seeds.
    assert (ours - exact).abs().max() <= max(10 * plain, 4e-4)


def test_quiet_patches_survive_float16_under_the_printed_welsch_function():
    """With c = 10 the function turns 0.01 into 5e-6, which float16 could hardly tell from zero."""
    layer = xnn.RXCNormConv2d(16, 8, 3, preset="paper", **BARE).eval()
    x = 0.01 * torch.randn(2, 16, 12, 12)
    with torch.autocast("cpu", torch.float16):
        half = layer(x)
    torch.testing.assert_close(half.float(), layer(x), rtol=0, atol=1e-4)


HARD = {
    "zero": lambda x: torch.zeros_like(x),
    "constant": lambda x: torch.full_like(x, 0.7),
    "offset": lambda x: x + 1e4,
    "tiny": lambda x: x * 1e-12,
    "outlier": lambda x: torch.zeros_like(x).index_fill_(1, torch.tensor([1]), 1e4),
    "outlier in noise": lambda x: x.index_fill(0, torch.tensor([1]), 0) + _spike(x, 1e6),
    "border": lambda x: x * (torch.arange(x.shape[-1]) > x.shape[-1] // 2),
}


def _spike(x, height):
    spike = torch.zeros_like(x)
    spike.view(-1)[spike.numel() // 2] = height
    return spike


@pytest.mark.parametrize("precision", [None, torch.bfloat16, torch.float16], ids=["float32", "bf16", "fp16"])
@pytest.mark.parametrize("hard", HARD)
@pytest.mark.parametrize("name", LAYERS)
def test_outputs_and_gradients_are_finite(name, hard, precision):
    layer = LAYERS[name]()
    x = HARD[hard](input_for(layer)).requires_grad_()
    for mode in (layer.train, layer.eval):
        mode()
        layer.zero_grad()
        x.grad = None
        with torch.autocast("cpu", dtype=precision or torch.bfloat16, enabled=precision is not None):
            output = layer(x)
        output.float().square().sum().backward()
        assert output.isfinite().all()
        assert x.grad.isfinite().all()
        for parameter_name, parameter in layer.named_parameters():
            assert parameter.grad.isfinite().all(), parameter_name


@pytest.mark.parametrize("robust", ROBUST)
@pytest.mark.parametrize("scale", ["ema", "parameter", "patch"])
def test_a_constant_image_has_no_response(robust, scale):
    """Flat is zero, not noise: rounding must not be amplified into a pattern."""
    options = {} if robust is None else {"robust": robust, "scale": scale}
    layer = (xnn.XCNormConv2d if robust is None else xnn.RXCNormConv2d)(4, 6, 3, **BARE, **options)
    for level in (0.0, 0.3, 0.7, 255.0):
        assert layer(torch.full((1, 4, 6, 6), level)).abs().max() < 1e-3
