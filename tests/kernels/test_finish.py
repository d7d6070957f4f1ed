"""The kernels of what follows the correlation, against the functional in float64."""

import itertools

import pytest
import torch
import triton.language as tl

import xcnorm.functional as xf
from xcnorm.functional.sharpen import exponent
from xcnorm.ops.triton import finish as operators
from xcnorm.ops.triton import sums
from xcnorm.ops.triton.finish import backward, finish, finish_backward, forward

pytestmark = pytest.mark.usefixtures("poisoned")

EPS = 1e-5
STATISTICS = ["instance", "batch", "given", "none"]
RESULTS = ("y", "mean", "variance", "dv", "dnorm", "dfactor", "dtau", "dgain")

# Images, positions, channels, groups.
SHAPES = {
    "one value": (1, 1, 1, 1),
    "dense": (5, 1, 7, 1),
    "one channel": (2, 3, 1, 1),
    "primes": (3, 7, 37, 1),
    "groups": (2, 5, 6, 2),
    "depthwise": (2, 5, 3, 3),
    "several blocks of channels": (2, 3, 300, 1),
    "several tiles": (1, 131, 17, 1),
}


class Case:
    """Random tensors, with similarities that are exactly zero or below the floor, and the options that go with them."""

    def __init__(self, shape, statistics, *, rectify="relu", tau=True, gain="before", factor=True, dtype=torch.float32):
        images, positions, channels, groups = shape
        v = torch.randn(images, positions, channels)
        v[torch.rand_like(v) < 0.1] = 0
        v[torch.rand_like(v) < 0.1] *= 1e-8
        norm = torch.rand(images, positions, groups) * 4 + 0.5
        self.tensors = (
            v.to(dtype),
            norm,
            torch.rand_like(norm) + 0.5 if factor else None,
            3 * torch.rand(()) - 2 if tau else None,
            None if gain == "none" else torch.randn(channels).sign() * (torch.rand(channels) + 0.5),
        )
        self.given = (torch.randn(channels), torch.rand(channels)) if statistics == "given" else (None, None)
        self.options = {"rectify": rectify, "gain_after": gain == "after", "statistics": statistics, "eps": EPS}
        self.dy = torch.randn_like(v)

    def actual(self, dtype=torch.float32):
        mean, variance = self.given
        y, *measured = finish(*self.tensors, mean, variance, **self.options, dtype=dtype)
        mean, variance = measured if mean is None else (mean, variance)
        gradients = finish_backward(self.dy, *self.tensors, mean, variance, **self.options)
        present = (None if t is None else g for t, g in zip(self.tensors, gradients, strict=True))
        return y, mean, variance, *present

    def expected(self, dtype=torch.float64):
        leaves = [None if t is None else t.to(dtype, copy=True).requires_grad_() for t in self.tensors]
        v, norm, factor, tau, gain = leaves
        after, statistics = self.options["gain_after"], self.options["statistics"]
        u = (v.mT.unflatten(1, (norm.shape[2], -1)) / norm.mT.unsqueeze(2)).flatten(1, 2)
        u = xf.rectify(u, self.options["rectify"])
        if tau is not None:
            u = xf.sharpen(u, exponent(tau))
        if gain is not None and not after:
            u = xf.gain(u, gain)
        if factor is not None:
            u = xf.masked_similarity(u, factor.mT, torch.zeros_like(factor.mT))
        if statistics == "none":
            y, mean, variance = u, torch.zeros(0), torch.zeros(0)
        elif statistics == "given":
            mean, variance = (t.to(dtype) for t in self.given)
            y = (u - mean[:, None]) / (variance[:, None] + EPS).sqrt()
        else:
            pooled = (0, 2) if statistics == "batch" else 2
            mean, variance = u.mean(pooled), u.var(pooled, correction=0)
            y = xf.channel_norm(u, statistics, EPS)
        if gain is not None and after:
            y = xf.gain(y, gain)
        gradients = iter(torch.autograd.grad(y, [t for t in leaves if t is not None], self.dy.to(dtype).mT))
        return y.mT, mean, variance, *(None if t is None else next(gradients) for t in leaves)

    def check(self):
        for name, a, e, same in zip(RESULTS, self.actual(), self.expected(), self.expected(torch.float32), strict=True):
            assert (a is None) == (e is None), name
            if a is None:
                continue
            assert a.shape == e.shape, name
            assert a.dtype == (self.tensors[0].dtype if name == "dv" else torch.float32), name
            # Twice the error of the plain formula; and something for the interpreter, which sums one by one.
            limit = 2 * (same - e).norm() + 2e-6 * (e.norm() + self.dy.norm())
            if a.dtype == torch.float16:
                limit += 2**-11 * e.norm() + 2**-25 * e.numel() ** 0.5
            assert (a.double() - e).norm() <= limit, name


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("rectify", ["relu", "abs", "none"])
@pytest.mark.parametrize("factor", [False, True])
def test_all_options_together(statistics, rectify, factor):
    for tau, gain in itertools.product([False, True], ["none", "before", "after"]):
        Case((2, 5, 3, 1), statistics, rectify=rectify, tau=tau, gain=gain, factor=factor).check()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("statistics", STATISTICS)
def test_odd_sizes(shape, statistics):
    if statistics == "instance" and SHAPES[shape][1] == 1:
        pytest.skip("instances of one position have no statistics")
    Case(SHAPES[shape], statistics).check()


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("gain", ["before", "after"])
@pytest.mark.parametrize(("shape", "pool"), [((2, 67, 5, 1), 256), ((3, 23, 6, 2), 256), ((2, 67, 5, 1), 32768)])
def test_rows_shared_by_several_programs(statistics, gain, shape, pool, monkeypatch):
    """Tiles of 8 rows, the last one not full, or a pool in one tile; strips of 4 rows; sums of 32 values at a time."""
    for name, value in {"_POOL": pool, "_STRIP": 32, "_LOW": 8}.items():
        monkeypatch.setattr(forward, name, value)
    monkeypatch.setattr(operators, "PART", 64)
    for module in (operators, forward, backward, sums):
        monkeypatch.setattr(module, "ADDED", tl.constexpr(32))
    Case(shape, statistics, gain=gain).check()


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("rectify", ["relu", "none"])
def test_half_precision(statistics, rectify):
    case = Case((2, 7, 5, 1), statistics, rectify=rectify, dtype=torch.float16)
    case.check()
    exact, _, _ = case.expected()[:3]
    half = case.actual(torch.float16)[0]
    assert half.dtype == torch.float16
    assert (half.double() - exact).norm() <= 2**-11 * exact.norm()


def test_a_mean_far_from_zero_costs_no_precision():
    """Where the difference of two squares would leave nothing of the variance."""
    case = Case((1, 67, 3, 1), "batch", rectify="none", tau=False, gain="none", factor=False)
    v, norm, *none = case.tensors
    case.tensors = v + 1000 * norm.ceil(), norm.ceil(), *none
    case.check()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("statistics", ["instance", "batch"])
def test_a_gradient_need_not_be_contiguous(dtype, statistics):
    case = Case((2, 5, 3, 1), statistics)
    for dy in (torch.randn(2, 3, 5).mT, torch.randn(()).expand(2, 5, 3)):
        case.dy = dy.to(dtype)
        results = case.actual()
        case.dy = case.dy.contiguous()
        assert all(map(torch.equal, results, case.actual()))


@pytest.mark.parametrize("rectify", ["relu", "abs", "none"])
@pytest.mark.parametrize("tau", [False, True])
def test_what_is_not_a_number_stays_so(rectify, tau):
    case = Case((1, 3, 2, 1), "none", rectify=rectify, tau=tau)
    case.tensors[0][0, 1, 1] = torch.nan
    assert torch.equal(case.actual()[0].isnan(), case.tensors[0].isnan())


@pytest.mark.parametrize("statistics", STATISTICS)
def test_an_empty_batch(statistics):
    case = Case((0, 5, 6, 2), statistics)
    y, mean, variance, *gradients = case.actual()
    assert y.shape == (0, 5, 6)
    assert mean.shape == variance.shape == {"instance": (0, 6), "none": (0,)}.get(statistics, (6,))
    assert mean.isfinite().all()
    assert variance.isfinite().all()
    for gradient, tensor in zip(gradients, case.tensors, strict=True):
        assert torch.equal(gradient, torch.zeros_like(tensor))
