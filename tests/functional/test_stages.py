"""The stages after the similarity."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import xcnorm.functional as xf
from xcnorm.functional.gain import initial_gain
from xcnorm.functional.sharpen import exponent, raw_exponent

F64 = torch.float64


def test_sharpen_is_the_power_of_the_rectified_similarity():
    u = torch.linspace(-1, 1, 21, dtype=F64)
    expected = u.clamp_min(0) ** 2.5
    torch.testing.assert_close(xf.sharpen(xf.rectify(u), 2.5), expected)


@pytest.mark.parametrize("tau", [0.5, 1.0, 3.0])
def test_sharpen_has_finite_gradients_at_zero(tau):
    u = torch.tensor([0.0, 1e-12, 0.3], requires_grad=True)
    exponent = torch.tensor(tau, requires_grad=True)
    xf.sharpen(u, exponent).sum().backward()
    assert u.grad.isfinite().all()
    assert exponent.grad.isfinite()


@pytest.mark.parametrize("how", ["relu", "abs", "none"])
def test_rectify_and_sharpen_are_differentiable(how):
    u = (torch.rand(3, 4, 2, dtype=F64) * 0.9 + 0.05) * torch.randn(3, 4, 2, dtype=F64).sign()
    tau = torch.rand(4, 1, dtype=F64) + 0.7

    def run(u, tau):
        return xf.sharpen(xf.rectify(u, how), tau)

    assert gradcheck(run, (u.requires_grad_(), tau.requires_grad_()))
    assert gradgradcheck(run, (u, tau))


def test_without_rectification_sharpening_keeps_the_sign():
    u = torch.tensor([-0.5, 0.5])
    torch.testing.assert_close(xf.sharpen(u, 2.0), torch.tensor([-0.25, 0.25]))


@pytest.mark.parametrize("positions", [(), (5,), (4, 5), (3, 4, 5)])
@pytest.mark.parametrize("groups", [1, 2])
def test_mask_interpolates_between_normalised_and_raw(positions, groups):
    u, norm = torch.randn(2, 4, *positions, dtype=F64), torch.rand(2, groups, *positions, dtype=F64) + 1
    weight = torch.randn(groups, 1, *(3,) * len(positions), dtype=F64)
    bias = torch.randn(groups, dtype=F64)
    mask = xf.attention_mask(norm, weight, bias)
    assert mask.shape == norm.shape
    assert ((mask > 0) & (mask < 1)).all()
    repeated = norm.repeat_interleave(4 // groups, 1)
    torch.testing.assert_close(xf.masked_similarity(u, norm, torch.ones_like(norm)), u)
    torch.testing.assert_close(xf.masked_similarity(u, norm, torch.zeros_like(norm)), u * repeated)
    m = mask.repeat_interleave(4 // groups, 1)
    expected = m * u + (1 - m) * (u * repeated)  # eq. (mask), as printed
    torch.testing.assert_close(xf.masked_similarity(u, norm, mask), expected)


def test_mask_of_a_grouped_layer_sees_only_its_own_group():
    norm = torch.rand(1, 2, 4, 4)
    weight, bias = torch.randn(2, 1, 3, 3), torch.randn(2)
    changed = norm.clone()
    changed[:, 1] += 1
    before, after = (xf.attention_mask(n, weight, bias) for n in (norm, changed))
    assert torch.equal(before[:, 0], after[:, 0])
    assert not torch.equal(before[:, 1], after[:, 1])


def test_channel_norm_equals_torch():
    u = torch.randn(4, 3, 5, 6, dtype=F64)
    torch.testing.assert_close(xf.channel_norm(u, "batch"), torch.nn.BatchNorm2d(3, affine=False, dtype=F64)(u))
    torch.testing.assert_close(xf.channel_norm(u, "instance"), torch.nn.InstanceNorm2d(3)(u))


@pytest.mark.parametrize("statistics", ["batch", "instance"])
def test_what_changes_its_output_in_place_has_no_say_in_the_gradient_of_channel_norm(statistics):
    def gradient(values, activate):
        values = values.clone().requires_grad_()
        (activate(xf.channel_norm(values, statistics)) * weights).sum().backward()
        return values.grad

    u, weights = torch.randn(2, 2, 3, 4, 4, dtype=F64)
    expected = gradient(u, torch.relu)
    assert torch.equal(gradient(u, torch.relu_), expected)


def test_channel_norm_cancels_the_gain_with_or_without_mask():
    """Why ``gain="before_norm"``, the printed order, does nothing once the channel norm is on."""
    u, norm = torch.rand(4, 3, 5, 5, dtype=F64), torch.rand(4, 1, 5, 5, dtype=F64)
    factor, mask = torch.tensor([2.0, 30.0, 400.0], dtype=F64), torch.rand(4, 1, 5, 5, dtype=F64)
    for amplified in (xf.gain(u, factor), xf.gain(u, torch.ones(3, dtype=F64))):
        plain = xf.channel_norm(amplified, eps=0.0)
        torch.testing.assert_close(plain, xf.channel_norm(u, eps=0.0))
        masked = xf.channel_norm(xf.masked_similarity(amplified, norm, mask), eps=0.0)
        torch.testing.assert_close(masked, xf.channel_norm(xf.masked_similarity(u, norm, mask), eps=0.0))


def test_bad_names_and_undefined_statistics_are_refused():
    with pytest.raises(ValueError, match="rectify 'rely'"):
        xf.rectify(torch.ones(1), "rely")
    with pytest.raises(ValueError, match="statistics 'layer'"):
        xf.channel_norm(torch.ones(2, 3), "layer")
    with pytest.raises(ValueError, match="single position"):
        xf.channel_norm(torch.ones(2, 3, 1, 1), "instance")


def test_an_exponent_that_is_a_number_has_the_slope_of_a_learnt_one():
    slopes = []
    for tau in (1.7, torch.tensor(1.7, dtype=F64, requires_grad=True), torch.tensor(1.7, dtype=F64)):
        u = torch.linspace(-1, 1, 20, dtype=F64, requires_grad=True)
        xf.sharpen(u, tau).sum().backward()
        slopes.append(u.grad)
    torch.testing.assert_close(slopes[0], slopes[1])
    torch.testing.assert_close(slopes[0], slopes[2])


@pytest.mark.parametrize("tau", [0.7, 1.0, 3.5])
def test_an_exponent_is_found_again_from_its_parameter(tau):
    raw = torch.tensor(raw_exponent(tau), dtype=F64)
    torch.testing.assert_close(exponent(raw), torch.tensor(tau, dtype=F64))


@pytest.mark.parametrize(("alpha", "tau", "expected"), [(16, 1.0, 4.0), (16, 3.0, 64.0), (9, 2.0, 9.0)])
def test_the_first_gain_is_the_norm_of_ones_to_the_power_of_tau(alpha, tau, expected):
    assert initial_gain(alpha, tau) == pytest.approx(expected)


@pytest.mark.parametrize("positions", [(), (5,), (4, 5)])
def test_gain_multiplies_every_channel_by_its_factor(positions):
    u, factor = torch.randn(2, 3, *positions, dtype=F64), torch.tensor([2.0, -30.0, 0.4], dtype=F64)
    amplified = xf.gain(u, factor)
    for channel in range(3):
        torch.testing.assert_close(amplified[:, channel], u[:, channel] * factor[channel])


def test_the_mask_of_a_dense_layer_is_a_sigmoid_of_its_norm():
    norm, weight, bias = torch.rand(5, 2, dtype=F64), torch.tensor([2.0, -3.0], dtype=F64), torch.tensor([0.5, 0.25])
    mask = xf.attention_mask(norm, weight.view(2, 1), bias)
    torch.testing.assert_close(mask, torch.sigmoid(norm * weight + bias))


@pytest.mark.parametrize("size", [3, 5])
def test_the_mask_sees_a_neighbourhood_that_goes_on_beyond_the_edge(size):
    norm, weight, bias = torch.rand(2, 1, 6, dtype=F64), torch.randn(1, 1, size, dtype=F64), torch.tensor([0.7])
    mask = xf.attention_mask(norm, weight, bias.double())
    for at in range(6):
        seen = [norm[:, 0, min(max(at + offset - size // 2, 0), 5)] * weight[0, 0, offset] for offset in range(size)]
        torch.testing.assert_close(mask[:, 0, at], torch.sigmoid(sum(seen) + 0.7), rtol=1e-7, atol=0)


@pytest.mark.parametrize("positions", [(), (4, 5)])
def test_the_module_of_the_mask_is_the_equation(positions):
    module = xf.NormAttentionMask(2, alpha=9, positions=len(positions))
    u, norm = torch.randn(3, 4, *positions, dtype=F64), torch.rand(3, 2, *positions, dtype=F64)
    start = torch.sigmoid(torch.tensor(2.0, dtype=F64)).expand_as(norm)
    torch.testing.assert_close(module(u, norm), xf.masked_similarity(u, norm, start))
    torch.nn.init.normal_(module.weight)
    assert repr(module) == f"NormAttentionMask(groups=2, kernel={(3,) * len(positions)})"
    mask = xf.attention_mask(norm / 3, module.weight.double(), module.bias.double())
    torch.testing.assert_close(module(u, norm), xf.masked_similarity(u, norm, mask))


@pytest.mark.parametrize("statistics", ["batch", "instance"])
@pytest.mark.parametrize("positions", [(7,), (1, 5), (2, 3)])
def test_channel_norm_is_differentiable(statistics, positions):
    u = torch.randn(3, 2, *positions, dtype=F64, requires_grad=True)
    assert gradcheck(lambda u: xf.channel_norm(u, statistics), u)
    assert gradgradcheck(lambda u: xf.channel_norm(u, statistics), u)
