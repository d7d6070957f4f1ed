"""Robust functions: shapes, slopes, symmetry, limits."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import xcnorm.functional as xf

NAMES = list(xf.ROBUST_FUNCTIONS)
Z = torch.linspace(-4, 4, 41, dtype=torch.float64) + 0.013  # off the kinks at 0 and +-c


def test_welsch_is_exactly_as_printed():
    c = 1.7
    torch.testing.assert_close(xf.welsch(Z, c), c * (1 - torch.exp(-(Z**2) / (2 * c**2))))


@pytest.mark.parametrize("name", NAMES)
def test_symmetry(name):
    phi = xf.robust_function(name)
    sign = 1 if name == "welsch" else -1
    torch.testing.assert_close(phi(-Z, 1.3), sign * phi(Z, 1.3))


@pytest.mark.parametrize("name", NAMES)
def test_slope_is_the_derivative_of_the_shape(name):
    function = xf.ROBUST_FUNCTIONS[name]
    t = Z.clone().requires_grad_()
    (slope,) = torch.autograd.grad(function.shape(t).sum(), t)
    torch.testing.assert_close(function.slope(Z), slope)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_in_value_and_scale(name):
    z, c = Z.clone().requires_grad_(), torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    assert gradcheck(xf.robust_function(name), (z, c))
    assert gradgradcheck(xf.robust_function(name), (z, c))


@pytest.mark.parametrize("name", NAMES)
def test_outliers_are_bounded_by_the_scale(name):
    assert xf.robust_function(name)(torch.tensor([1e6, -1e6]), 2.0).abs().max() <= 2.0


@pytest.mark.parametrize("name", ["welsch_influence", "huber", "cauchy", "tukey"])
def test_influence_forms_are_the_identity_for_a_large_scale(name):
    torch.testing.assert_close(xf.robust_function(name)(Z, 1e8), Z)


@pytest.mark.parametrize("name", NAMES)
def test_a_large_scale_loses_no_precision_in_float32(name):
    exact = xf.robust_function(name)(Z, 1e3)
    torch.testing.assert_close(xf.robust_function(name)(Z.float(), 1e3).double(), exact, rtol=1e-5, atol=0)


def test_named_functions_are_the_registered_ones():
    for name in NAMES:
        torch.testing.assert_close(getattr(xf, name)(Z, 0.7), xf.ROBUST_FUNCTIONS[name](Z, 0.7))


@pytest.mark.parametrize(
    "function", [f for f in map(xf.ROBUST_FUNCTIONS.__getitem__, NAMES) if f.in_place], ids=lambda f: f.name
)
def test_in_place_a_function_and_its_slope_are_the_same(function):
    shape, work = torch.empty_like(Z), torch.empty_like(Z)
    function.in_place.shape(Z, shape, work)
    torch.testing.assert_close(shape, function.shape(Z))
    function.in_place.slope(Z, shape, work)
    torch.testing.assert_close(work, function.slope(Z))


def test_unknown_name_suggests():
    with pytest.raises(ValueError, match="did you mean 'welsch'"):
        xf.robust_function("welch")
