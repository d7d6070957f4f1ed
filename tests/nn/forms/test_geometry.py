"""Every form takes torch's geometry, gives torch's shapes, and refuses what it cannot honour."""

import pickle

import pytest
import torch
from torch import nn

from xcnorm.nn import FORMS, Relative, find_form

RELATIVES = [name for name in FORMS if issubclass(find_form(name).convolution, Relative)]
GEOMETRIES = [
    {},
    {"stride": 2, "padding": 1},
    {"padding": (2, 1), "dilation": (1, 2), "padding_mode": "circular"},
    {"padding": "same", "padding_mode": "replicate"},
    {"padding": "valid", "groups": 2},
    {"stride": (1, 2), "padding": 1, "groups": 2, "padding_mode": "reflect"},
]


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("name", RELATIVES)
def test_shapes_are_those_of_a_convolution(name, geometry):
    layer, plain = find_form(name).convolution(4, 6, 3, **geometry), nn.Conv2d(4, 6, 3, **geometry)
    input = torch.randn(2, 4, 9, 8)
    output = layer(input)
    assert output.shape == plain(input).shape
    torch.testing.assert_close(layer.eval()(input[0]), layer(input[:1])[0])


@pytest.mark.parametrize("name", RELATIVES)
def test_the_patch_that_is_measured_is_the_patch_that_is_there(name):
    torch.manual_seed(0)
    layer = find_form(name).convolution(4, 6, 3, padding=2, padding_mode="circular", groups=2).eval()
    bare = find_form(name).convolution(4, 6, 3, groups=2).eval()
    bare.load_state_dict(layer.state_dict())
    input = torch.randn(2, 4, 6, 6)
    torch.testing.assert_close(layer(input), bare(nn.functional.pad(input, (2, 2, 2, 2), "circular")))


@pytest.mark.parametrize("name", RELATIVES)
def test_a_state_dict_and_a_pickle_carry_a_layer_over(name):
    first, second = (find_form(name).convolution(3, 4, 3) for _ in range(2))
    input = torch.randn(2, 3, 6, 6)
    first(input)  # moves what moves
    second.load_state_dict(first.state_dict())
    expected = first.eval()(input)
    assert torch.equal(second.eval()(input), expected)
    assert torch.equal(pickle.loads(pickle.dumps(first))(input), expected)


@pytest.mark.parametrize("name", RELATIVES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_rounds_and_no_more(name, dtype):
    torch.manual_seed(0)
    layer = find_form(name).convolution(4, 6, 3)
    input = torch.randn(2, 4, 6, 6, requires_grad=True)
    expected = layer(input)
    with torch.autocast("cpu", dtype):
        output = layer(input)
    assert (output.float() - expected).norm() < 0.03 * expected.norm()
    output.float().square().sum().backward()
    assert input.grad.isfinite().all()


@pytest.mark.parametrize("name", RELATIVES)
def test_constant_and_huge_patches_keep_everything_finite(name):
    layer = find_form(name).convolution(3, 4, 3)
    for input in (torch.zeros(1, 3, 5, 5), torch.ones(1, 3, 5, 5), torch.full((1, 3, 5, 5), 1e4)):
        layer.zero_grad()
        input.requires_grad_()
        output = layer(input)
        assert output.isfinite().all()
        output.mean().backward()
        assert all(value.grad.isfinite().all() for value in (input, *layer.parameters()))


@pytest.mark.parametrize("name", RELATIVES)
def test_resetting_starts_everything_anew(name):
    layer = find_form(name).convolution(3, 4, 3)
    fresh = {key: value.clone() for key, value in layer.state_dict().items()}
    for value in layer.state_dict().values():
        value.fill_(7.0)
    torch.manual_seed(0)
    layer.reset_parameters()
    for key, value in layer.state_dict().items():
        assert not (value == 7.0).all(), key
        if key not in ("weight", "bias", "length"):
            assert torch.equal(value, fresh[key]), key


@pytest.mark.parametrize(
    ("name", "arguments", "error", "message"),
    [
        ("sphere", {"bias": True}, ValueError, "bias=True is not supported: SphereConv2d has none"),
        ("sphere", {"angular": "cosin"}, ValueError, "unknown angular 'cosin'; did you mean 'cosine'"),
        ("sphere", {"groups": 2}, ValueError, "groups=2 does not divide in_channels=3"),
        ("sphere", {"padding_mode": "zero"}, ValueError, "unknown padding_mode 'zero'; did you mean 'zeros'"),
        ("sphere", {"stride": 0}, ValueError, "stride must be at least 1, got 0"),
        ("decoupled", {"magnitude": "tan"}, ValueError, "unknown magnitude 'tan'; did you mean 'tanh'"),
        ("decoupled", {"angular": "cubic"}, ValueError, "unknown angular 'cubic'"),
        ("bcos", {"b": 0.5}, ValueError, "b must be at least 1, got 0.5"),
        ("bcos", {"max_out": 0}, ValueError, "max_out must be an integer of at least 1, got 0"),
        ("bcos", {"scale": "off"}, ValueError, "scale must be above 0 or 'none', got 'off'"),
        ("kervolution", {"kernel": "gauss"}, ValueError, "unknown kernel 'gauss'; did you mean 'gaussian'"),
        ("kervolution", {"power": 1.5}, ValueError, "power must be an integer of at least 1, got 1.5"),
        ("kervolution", {"gamma": 0.0}, ValueError, "gamma must be above 0, got 0.0"),
        ("weight_standardised", {"correction": 2}, ValueError, "correction must be 0 or 1, got 2"),
        ("weight_standardised", {"eps": 0}, ValueError, "eps must be above 0, got 0"),
        ("weight_standardised", {"in_channels": 1, "kernel_size": 1}, ValueError, "a filter of one value has no"),
        ("scs", {"p": 0}, ValueError, "p must be above 0, got 0"),
        ("scs", {"q": -1.0}, ValueError, "q must be above 0, got -1.0"),
    ],
)
def test_what_cannot_be_honoured_is_refused(name, arguments, error, message):
    with pytest.raises(error, match=message):
        find_form(name).convolution(**{"in_channels": 3, "out_channels": 4, "kernel_size": 3, **arguments})


def test_an_unknown_form_is_refused():
    with pytest.raises(ValueError, match="unknown layer 'bcoss'; did you mean 'bcos'"):
        find_form("bcoss")
