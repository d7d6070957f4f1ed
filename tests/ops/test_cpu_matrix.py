"""Products by oneDNN are products, whatever the layout of the factors."""

import itertools

import pytest
import torch

from xcnorm.ops.cpu import blockwise

LAYOUTS = {
    "rows": lambda shape: torch.randn(shape),
    "columns": lambda shape: torch.randn(shape[::-1]).mT,
    "every other column": lambda shape: torch.randn(shape[0], 2 * shape[1])[:, ::2],
    "a part": lambda shape: torch.randn(shape[0] + 3, shape[1] + 5)[3:, 5:],
    "the same row again": lambda shape: torch.randn(1, shape[1]).expand(shape),
}


@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("right", LAYOUTS)
def test_every_layout(left, right):
    for rows, inner, columns in itertools.product((1, 31, 32, 65), (1, 32, 77), (0, 16, 33)):
        factors = LAYOUTS[left]((rows, inner)), LAYOUTS[right]((inner, columns))
        expected = factors[0].double() @ factors[1].double()
        found = blockwise.multiply(*factors)
        assert found.dtype == torch.float32
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def test_large_products_run_on_onednn_and_small_ones_do_not(monkeypatch):
    if blockwise._LINEAR is None:
        pytest.skip("this build of torch has no oneDNN")
    calls = []
    linear = blockwise._LINEAR
    monkeypatch.setattr(blockwise, "_LINEAR", lambda *given: calls.append(given) or linear(*given))
    for rows, inner, columns in [(64, 32, 32), (31, 64, 64), (64, 31, 64), (64, 64, 31)]:
        blockwise.multiply(torch.randn(rows, inner), torch.randn(inner, columns))
    assert len(calls) == 1


def test_without_onednn(monkeypatch):
    factors = torch.randn(40, 50), torch.randn(50, 60)
    found = blockwise.multiply(*factors)
    monkeypatch.setattr(blockwise, "_LINEAR", None)
    torch.testing.assert_close(blockwise.multiply(*factors), found)


def test_the_same_bits_every_time():
    factors = torch.randn(300, 500), torch.randn(500, 70)
    assert all(torch.equal(blockwise.multiply(*factors), blockwise.multiply(*factors)) for _ in range(5))
