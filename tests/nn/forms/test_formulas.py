"""Every relative computes what its definition says, for every geometry, and autograd its gradient."""

import math

import pytest
import torch
from torch import nn

from tests.nn.forms.direct import ANGULAR, angle, answer, cosine, length, patches_of
from xcnorm.nn import find_form

GEOMETRY = {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2), "groups": 2, "padding_mode": "reflect"}


def make(name, **options):
    """A small layer in float64, and an input of two images."""
    torch.manual_seed(0)
    layer = find_form(name).convolution(4, 6, 3, **{**GEOMETRY, **options}, dtype=torch.float64)
    return layer, torch.randn(2, 4, 5, 6, dtype=torch.float64)


def assert_answers(layer, input, unit):
    torch.testing.assert_close(layer(input), answer(layer, input, unit), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("angular", ["cosine", "linear", "sigmoid"])
def test_sphere(angular):
    layer, input = make("sphere", angular=angular)
    assert_answers(layer, input, lambda z, w, _: ANGULAR[angular](angle(z, w, 1e-4)))


def test_sphere_is_cosine_similarity_up_to_epsilon():
    layer, input = make("sphere")
    torch.testing.assert_close(
        layer(1e4 * input), answer(layer, input, lambda z, w, _: cosine(z, w)), rtol=0, atol=2e-4
    )


@pytest.mark.parametrize("angular", ANGULAR)
@pytest.mark.parametrize(
    ("magnitude", "h"),
    [
        ("sphere", lambda x, r: 1.0),
        ("ball", lambda x, r: min(x, r) / r),
        ("tanh", lambda x, r: math.tanh(x / r)),
        ("linear", lambda x, r: x),
        ("segmented", lambda x, r: x if x <= r else 0.25 * x + r - 0.25 * r),
        ("log", lambda x, r: math.log(1 + x)),
        ("mixed", lambda x, r: x + 0.25 * math.log(1 + x)),
    ],
)
def test_decoupled(magnitude, h, angular):
    layer, input = make("decoupled", magnitude=magnitude, angular=angular, beta=0.25)
    patches, _, _ = patches_of(layer, input)
    mean = float((patches.square().sum(-1) + 1e-4).sqrt().mean())
    radii = torch.linspace(0.5, 1.5, 6, dtype=torch.float64)
    if hasattr(layer, "radius"):
        layer.radius.data.copy_(radii)
    for unit_length in (mean, 2.0):  # of the batch in training, a moving average in evaluation
        assert_answers(
            layer,
            input,
            lambda z, w, f, unit_length=unit_length: (
                h(length(z, 1e-4), (radii[f].item() ** 2 + 1e-4) * unit_length) * ANGULAR[angular](angle(z, w, 1e-4))
            ),
        )
        layer.eval()
        if hasattr(layer, "running_length"):
            assert layer.running_length.item() == pytest.approx(0.9 + 0.1 * mean if unit_length == mean else 2.0)
            layer.running_length.fill_(2.0)


@pytest.mark.parametrize("b", [1.0, 2.0, 1.5])
def test_bcos(b):
    layer, input = make("bcos", b=b)
    scale = 100 / math.sqrt(18)

    def unit(z, w, _):
        product = float((z * w).sum()) / length(w, 0)
        ratio = abs(product) / length(z, 1e-6)
        return scale * product * (1 if b == 1 else ratio if b == 2 else (ratio + 1e-6) ** (b - 1))

    assert_answers(layer, input, unit)


def test_bcos_max_out_takes_the_largest_of_neighbouring_filters():
    layer, input = make("bcos", max_out=2, scale="none")
    assert layer.weight.shape[0] == 12
    products = answer(layer, input, lambda z, w, _: float((z * w).sum()) / length(w, 0))
    largest = products.view(2, 6, 2, *products.shape[2:]).amax(2)
    lengths = answer(layer, input, lambda z, w, _: length(z, 1e-6))[:, ::2]
    torch.testing.assert_close(layer(input), largest * largest.abs() / lengths)


@pytest.mark.parametrize("power", [1, 2, 3])
def test_polynomial_kervolution(power):
    layer, input = make("kervolution", power=power, balance=0.7)
    assert_answers(layer, input, lambda z, w, f: (float((z * w).sum()) + layer.bias[f].item() + 0.7) ** power)


@pytest.mark.parametrize("gamma", [None, 0.3])
def test_gaussian_kervolution(gamma):
    layer, input = make("kervolution", kernel="gaussian", gamma=gamma)
    squares = lambda z, w, f: float((z - w).square().sum()) - 2 * layer.bias[f].item()  # noqa: E731
    assert_answers(layer, input, lambda z, w, f: math.exp(-(gamma or 1 / 18) * squares(z, w, f)))


def test_gaussian_kervolution_equals_that_of_unfolded_patches():
    layer, input = make("kervolution", kernel="gaussian", groups=1, padding_mode="zeros", gamma=0.1, bias=False)
    how = {"stride": layer.stride, "padding": layer.padding, "dilation": layer.dilation}
    patches = nn.functional.unfold(input, layer.kernel_size, **how).mT
    expected = (-0.1 * torch.cdist(patches, layer.weight.flatten(1)[None]).square()).exp().mT
    torch.testing.assert_close(layer(input).flatten(2), expected)


def test_weight_normalisation_is_torchs():
    layer, input = make("weight_normalised")
    torchs = nn.utils.parametrizations.weight_norm(nn.Conv2d(4, 6, 3, **GEOMETRY).double())
    with torch.no_grad():
        layer.length.copy_(torch.rand(6) + 0.5)
        torchs.parametrizations.weight.original0.copy_(layer.length.view(6, 1, 1, 1))
        torchs.parametrizations.weight.original1.copy_(layer.weight)
        torchs.bias.copy_(layer.bias)
    torch.testing.assert_close(layer(input), torchs(input))


def test_weight_normalisation_starts_as_the_plain_convolution():
    layer, input = make("weight_normalised")
    plain = nn.Conv2d(4, 6, 3, **GEOMETRY).double()
    plain.load_state_dict({name: value for name, value in layer.state_dict().items() if name != "length"})
    torch.testing.assert_close(layer(input), plain(input))


@pytest.mark.parametrize("correction", [0, 1])
def test_weight_standardisation(correction):
    layer, input = make("weight_standardised", correction=correction, eps=1e-3)
    filters = []
    for w in layer.weight.detach().flatten(1):
        mean = w.sum() / 18
        variance = ((w - mean) ** 2).sum() / (18 - correction)
        filters.append((w - mean) / math.sqrt(variance + 1e-3))
    unit = lambda z, w, f: float((z * filters[f]).sum()) + layer.bias[f].item()  # noqa: E731
    assert_answers(layer, input, unit)


@pytest.mark.parametrize("gain", [True, False])
def test_sharpened_cosine_similarity(gain):
    layer, input = make("scs", q=0.2, gain=gain)
    powers = torch.linspace(0.5, 3, 6, dtype=torch.float64)
    layer.raw_p.data.copy_(5 * powers.log())
    factor = layer.gain.item() if gain else 1.0

    def unit(z, w, f):
        similarity = float((z * w).sum()) / ((length(z, 1e-6) + 0.2) * length(w, 1e-6))
        return factor * math.copysign((abs(similarity) + 1e-6) ** powers[f].item(), similarity)

    assert_answers(layer, input, unit)


def test_sharpened_cosine_similarity_starts_as_in_the_public_code():
    layer, _ = make("scs")
    assert layer.raw_p[0].item() == pytest.approx(0.7 * 5)
    assert layer.raw_q.item() == pytest.approx(1 * 0.3)


OPTIONS = [
    ("sphere", {"angular": "linear"}),
    ("sphere", {"angular": "sigmoid"}),
    ("decoupled", {"magnitude": "ball", "angular": "square"}),
    ("decoupled", {"magnitude": "tanh"}),
    ("decoupled", {"magnitude": "segmented"}),
    ("decoupled", {"magnitude": "mixed"}),
    ("bcos", {}),
    ("bcos", {"b": 1.5, "max_out": 2}),
    ("kervolution", {}),
    ("kervolution", {"kernel": "gaussian"}),
    ("weight_normalised", {}),
    ("weight_standardised", {}),
    ("scs", {}),
]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_gradients(name, options, training):
    torch.manual_seed(0)
    layer = find_form(name).convolution(2, 2, 2, stride=2, groups=2, **options).double().train(training)
    input = torch.randn(1, 2, 4, 4, dtype=torch.float64, requires_grad=True)
    names, values = zip(*layer.named_parameters(), strict=True)
    buffers = {name: value.clone() for name, value in layer.named_buffers()}  # a call may move them

    def call(input, *values):
        state = {**dict(zip(names, values, strict=True)), **{name: value.clone() for name, value in buffers.items()}}
        return torch.func.functional_call(layer, state, input)

    assert torch.autograd.gradcheck(call, (input, *values))
