"""The shared formulas beside the grid of geometries: half precision, one filter, a large epsilon, 1 x 1 filters."""

import pytest
import torch
import torch.nn.functional as F

import xcnorm.functional as xf
from tests.ops import asking
from xcnorm import ops
from xcnorm.ops.formulas.ncc import convolve, pad
from xcnorm.ops.formulas.product import product

DENSE = ops.Correlation((), (), ())
PLAIN = ops.Correlation((3, 3), (1, 1), (1, 1))
GROUPED = ops.Correlation((3, 2), (2, 1), (1, 2), groups=2)
# Of two factors and their product, each rounded to 11 bits.
HALF = {"rtol": 4e-3, "atol": 4e-3}


def answers(correlation, values, weight, dtype, scale):
    values, weight = values.clone().requires_grad_(), weight.clone().requires_grad_()
    answer = product(values, weight, correlation, dtype)
    answer.backward(scale * torch.linspace(-1, 1, answer.numel()).view(answer.shape))
    return answer.detach(), values.grad / scale, weight.grad / scale


@pytest.mark.parametrize("correlation", [DENSE, PLAIN, GROUPED], ids=["dense", "plain", "grouped"])
@pytest.mark.parametrize("height", [1.0, 1e6])
@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_a_product_in_half_precision_is_that_of_full_precision_however_large_its_factors(correlation, height, scale):
    sizes, channels = ((), 6) if correlation is DENSE else ((6, 7), 4)
    values = torch.randn(2, channels, *sizes)
    weight = xf.normalise_weight(torch.randn(4, channels // correlation.groups, *correlation.kernel))
    half = answers(correlation, height * values, weight, torch.float16, scale)
    full = answers(correlation, height * values, weight, torch.float32, scale)
    for found, expected in zip(half, full, strict=True):
        unit = expected.abs().max()
        torch.testing.assert_close(found / unit, expected / unit, **HALF)


@pytest.mark.parametrize("correlation", [DENSE, PLAIN], ids=["dense", "plain"])
@pytest.mark.parametrize("robust", [None, "huber"])
def test_one_filter_and_a_large_epsilon_are_the_references(correlation, robust):
    correlation = ops.Correlation(
        correlation.kernel,
        correlation.stride,
        correlation.dilation,
        eps=0.3,
        robust=robust,
        per_patch=robust is not None,
    )
    x = torch.randn(2, 3, *(5 for _ in correlation.kernel), dtype=torch.float64)
    weight, c = torch.randn(1, 3, *correlation.kernel, dtype=torch.float64), torch.tensor(1.3, dtype=torch.float64)
    plain, reference = (asking.similarity(x, weight, c, correlation, backend=name) for name in ("plain", "reference"))
    for found, expected in zip(plain, reference, strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("size", [15, 16])  # more positions are a matrix product
def test_filters_of_one_position_are_a_convolution(groups, size):
    values, weight = torch.randn(2, 4, size, size), torch.randn(6, 4 // groups, 1, 1)
    found = convolve(values, weight, ops.Correlation((1, 1), (1, 1), (1, 1), groups=groups))
    torch.testing.assert_close(found, F.conv2d(values, weight, groups=groups))


@pytest.mark.parametrize("padding", [(2, 1), (0, 3, 1, 2)])
def test_what_a_compiler_reads_instead_of_padding_by_replication_is_the_same(monkeypatch, padding):
    rank = len(padding) // 2
    correlation = ops.Correlation((3,) * rank, (1,) * rank, (1,) * rank, padding=padding, padding_mode="replicate")
    x = torch.randn(2, 3, *(4, 5)[:rank])
    expected = F.pad(x, padding, mode="replicate")
    monkeypatch.setattr(torch.compiler, "is_dynamo_compiling", lambda: True)
    torch.testing.assert_close(pad(x, correlation), expected, rtol=0, atol=0)
