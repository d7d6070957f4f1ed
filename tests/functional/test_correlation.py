"""The similarities of the paper's Method section, as statements."""

import pytest
import torch

import xcnorm.functional as xf

F64 = torch.float64


@pytest.fixture
def patches():
    return torch.randn(7, 3, 18, dtype=F64)


@pytest.fixture
def weight():
    return torch.randn(4, 18, dtype=F64)


def test_both_printed_forms_of_ncc_agree(patches, weight):
    torch.testing.assert_close(xf.ncc(patches, weight), xf.ncc_expanded(patches, weight), rtol=0, atol=1e-12)


def test_ncc_is_the_correlation_coefficient(patches, weight):
    stacked = torch.cat([patches.flatten(0, 1), weight])
    expected = torch.corrcoef(stacked)[: -len(weight), -len(weight) :].view(7, 3, 4)
    torch.testing.assert_close(xf.ncc(patches, weight, eps=0.0), expected, rtol=0, atol=1e-12)


def test_a_linear_unit_is_a_matrix_product(patches, weight):
    torch.testing.assert_close(xf.linear_unit(patches, weight), torch.einsum("abj,oj->abo", patches, weight))


@pytest.mark.parametrize("robust", ["welsch_influence", "huber", "cauchy", "tukey"])
def test_influence_forms_become_ncc_for_a_large_scale(patches, weight, robust):
    robust_value = xf.robust_ncc(patches, weight, c=1e6, robust=robust)
    torch.testing.assert_close(robust_value, xf.ncc(patches, weight), rtol=0, atol=1e-9)


def test_the_printed_welsch_function_does_not_become_ncc_and_ignores_polarity(patches, weight):
    value = xf.robust_ncc(patches, weight, c=1e3, robust="welsch")
    assert (value - xf.ncc(patches, weight)).abs().max() > 0.1
    torch.testing.assert_close(value, xf.robust_ncc(-patches, weight, c=1e3, robust="welsch"))


def test_robust_ncc_barely_notices_an_outlier(patches, weight):
    spoiled = patches.clone()
    spoiled[..., 0] += 50
    plain = (xf.ncc(spoiled, weight) - xf.ncc(patches, weight)).abs().mean()
    robust = xf.robust_ncc(spoiled, weight, 3.0, "welsch_influence") - xf.robust_ncc(
        patches, weight, 3.0, "welsch_influence"
    )
    # The outlier still moves the patch mean, so the robust answer changes too; by less than a constant patch would.
    assert plain > 0.15
    assert robust.abs().mean() < plain


def test_the_scaled_epsilon_keeps_a_quiet_patch_audible_under_a_large_scale(weight):
    """With c = 10 the printed Welsch function turns 0.1 into 0.0005; an absolute epsilon would drown it."""
    quiet = 0.1 * torch.randn(5, 18, dtype=F64)
    with_eps = xf.robust_ncc(quiet, weight, c=10.0, robust="welsch", eps=1e-5)
    without = xf.robust_ncc(quiet, weight, c=10.0, robust="welsch", eps=0.0)
    torch.testing.assert_close(with_eps, without, rtol=0.1, atol=0)


def test_per_patch_scale_restores_invariance_to_gain(patches, weight):
    def respond(z):
        return xf.robust_ncc(z, weight, 2.0 * xf.patch_deviation(z, eps=0.0), "welsch_signed", eps=1e-12)

    torch.testing.assert_close(respond(patches), respond(7 * patches + 3), rtol=0, atol=1e-9)
    fixed = [xf.robust_ncc(z, weight, 2.0, "welsch_signed", eps=1e-12) for z in (patches, 7 * patches + 3)]
    assert (fixed[0] - fixed[1]).abs().max() > 0.01


def test_channelwise_forgives_a_colour_cast_that_ncc_does_not(patches, weight):
    cast = (patches.unflatten(-1, (3, 6)) * torch.tensor([0.5, 1, 2], dtype=F64)[:, None]).flatten(-2)
    plain = xf.ncc(patches, weight, 0.0) - xf.ncc(cast, weight, 0.0)
    assert plain.abs().max() > 0.05
    standardised = [xf.ncc(xf.standardise_channels(z, 3, eps=0.0), weight, 0.0) for z in (patches, cast)]
    torch.testing.assert_close(*standardised, rtol=0, atol=1e-12)


def test_the_corrected_gradient_equation_holds_and_the_printed_one_does_not():
    z, w = torch.randn(18, dtype=F64), (5 * torch.randn(18, dtype=F64)).requires_grad_()
    xf.ncc(z, w[None], eps=0.0).backward()
    torch.testing.assert_close(w.grad, xf.ncc_weight_gradient(z, w.detach()), rtol=0, atol=1e-12)
    printed = xf.ncc_weight_gradient(z, w.detach()) * (w - w.mean()).norm()  # divides by ||w_hat|| = 1
    assert (printed - w.grad).abs().max() > 0.1


def test_the_gradient_shrinks_as_the_filter_grows():
    z, w = torch.randn(18, dtype=F64), torch.randn(18, dtype=F64)
    torch.testing.assert_close(xf.ncc_weight_gradient(z, 10 * w), xf.ncc_weight_gradient(z, w) / 10)


def test_a_constant_filter_answers_zero_with_a_finite_gradient():
    weight = torch.ones(1, 18, requires_grad=True)
    value = xf.ncc(torch.randn(5, 18), weight)
    assert (value == 0).all()
    value.sum().backward()
    assert weight.grad.isfinite().all()


def test_deviations_and_norms_of_patches_have_their_epsilon(patches):
    deviation = (patches.var(-1, correction=0, keepdim=True) + 0.3).sqrt()
    torch.testing.assert_close(xf.patch_deviation(patches, eps=0.3), deviation)
    torch.testing.assert_close(xf.patch_norm(patches, eps=0.3), deviation * 18**0.5)


def test_both_printed_forms_of_ncc_have_the_same_epsilon(patches, weight):
    torch.testing.assert_close(xf.ncc(patches, weight, 0.3), xf.ncc_expanded(patches, weight, 0.3), rtol=0, atol=1e-12)


@pytest.mark.parametrize("c", [0.5, 1.9, 4.0])
def test_the_robust_epsilon_is_that_of_a_value_of_one_or_of_half_a_small_scale(c):
    norm = xf.robust_patch_norm(torch.zeros(1, 18, dtype=F64), c, "huber", eps=0.3)
    floor = 0.3 * min(1, c / 2) ** 2
    torch.testing.assert_close(norm, torch.full_like(norm, (18 * floor) ** 0.5))


def test_the_printed_robust_function_is_the_default(patches, weight):
    torch.testing.assert_close(xf.robust_ncc(patches, weight, 2.0), xf.robust_ncc(patches, weight, 2.0, "welsch"))
    torch.testing.assert_close(xf.robust_patch_norm(patches, 2.0), xf.robust_patch_norm(patches, 2.0, "welsch"))


@pytest.mark.parametrize("shape", [(18,), (5, 18), (2, 5, 18)])
def test_a_standardised_channel_has_mean_zero_and_deviation_one(shape):
    patches = 3 + torch.randn(shape, dtype=F64)
    channels = xf.standardise_channels(patches, 3, eps=0.0).unflatten(-1, (3, 6))
    assert channels.shape == (*shape[:-1], 3, 6)
    torch.testing.assert_close(channels.mean(-1), torch.zeros_like(channels[..., 0]))
    torch.testing.assert_close(channels.std(-1, correction=0), torch.ones_like(channels[..., 0]))
