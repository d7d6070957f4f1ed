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
