"""The mask's kernels against the functional in float64."""

import math

import pytest
import torch

import xcnorm.functional as xf
from xcnorm.ops.triton.mask import mask, mask_backward

pytestmark = pytest.mark.usefixtures("poisoned")

SHAPES = {
    "one pixel": (1, 1, 1, 1, (3, 3)),
    "dense": (5, 1, 1, 1, (1, 1)),
    "primes": (2, 5, 7, 1, (3, 3)),
    "narrow": (3, 1, 4, 1, (3, 3)),
    "flat kernel": (2, 3, 4, 1, (1, 3)),
    "large kernel": (1, 3, 2, 1, (5, 3)),
    "groups": (2, 3, 4, 3, (3, 3)),
    "several programs": (3, 11, 13, 2, (3, 3)),
}


def data(images, height, width, groups, kernel):
    norm = torch.rand(images, height, width, groups) * 4 + 0.1
    return norm, torch.randn(groups, *kernel), torch.randn(groups)


def expected(norm, weight, bias, alpha, dfactor):
    leaves = [tensor.double().requires_grad_() for tensor in (norm, weight, bias)]
    maps = leaves[0].movedim(-1, 1)
    m = xf.attention_mask(maps / math.sqrt(alpha), leaves[1].unsqueeze(1), leaves[2])
    one = maps.new_ones(1, maps.shape[1], *maps.shape[2:])
    factor = xf.masked_similarity(one.expand_as(maps), maps, m).movedim(1, -1)
    return factor.detach(), *torch.autograd.grad(factor, leaves, dfactor.double())


@pytest.mark.parametrize("shape", SHAPES)
def test_equals_the_functional(shape):
    norm, weight, bias = data(*SHAPES[shape])
    dfactor = torch.randn_like(norm)
    actual = mask(norm, weight, bias, 7), *mask_backward(dfactor, norm, weight, bias, 7)
    for a, e in zip(actual, expected(norm, weight, bias, 7, dfactor), strict=True):
        assert a.shape == e.shape
        assert (a - e).norm() <= 1e-6 * e.norm()


def test_a_gradient_need_not_be_contiguous():
    norm, weight, bias = data(2, 3, 4, 1, (1, 1))
    dfactor = torch.randn(2, 4, 3, 1).transpose(1, 2)
    expanded = torch.ones(()).expand_as(norm)
    for gradient in (dfactor, expanded):
        actual = mask_backward(gradient, norm, weight, bias, 7)
        for a, e in zip(actual, mask_backward(gradient.contiguous(), norm, weight, bias, 7), strict=True):
            assert torch.equal(a, e)


def test_an_empty_batch():
    norm, weight, bias = data(0, 3, 4, 2, (3, 3))
    assert mask(norm, weight, bias, 7).shape == norm.shape
    dnorm, dweight, dbias = mask_backward(norm, norm, weight, bias, 7)
    assert dnorm.shape == norm.shape
    assert torch.equal(dweight, torch.zeros_like(weight))
    assert torch.equal(dbias, torch.zeros_like(bias))
