"""Brute force, reference and plain give the same numbers and the same derivatives, over a grid of geometries."""

from dataclasses import dataclass

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from tests.ops import asking, brute_force
from xcnorm import ops
from xcnorm.functional import ROBUST_FUNCTIONS

ROBUST = [None, *ROBUST_FUNCTIONS]


@dataclass(frozen=True)
class Case:
    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: int = 1
    padding: int = 0
    mode: str = "zeros"
    dilation: int = 1
    groups: int = 1
    channels_in: int = 2
    channels_out: int = 2

    def correlation(self, **options) -> ops.Correlation:
        rank = len(self.kernel)
        return ops.Correlation(
            self.kernel,
            (self.stride,) * rank,
            (self.dilation,) * rank,
            padding=(self.padding,) * (2 * rank),
            padding_mode=self.mode,
            groups=self.groups,
            **options,
        )

    def data(self, images=2):
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(images, self.channels_in, *self.sizes, generator=generator, dtype=torch.float64)
        w = torch.randn(
            self.channels_out, self.channels_in // self.groups, *self.kernel, generator=generator, dtype=torch.float64
        )
        return x, w

    def __str__(self):
        shown = [f"{'x'.join(map(str, self.kernel)) or 'dense'}"]
        shown += [f"s{self.stride}" * (self.stride > 1), f"p{self.padding}{self.mode}" * (self.padding > 0)]
        shown += [f"d{self.dilation}" * (self.dilation > 1), f"g{self.groups}" * (self.groups > 1)]
        return "-".join(filter(None, shown))


CASES = [
    Case((), (), channels_in=5),
    Case((6,), (3,)),
    Case((6,), (2,), stride=2, padding=1, mode="reflect", groups=2),
    Case((7,), (3,), padding=2, mode="circular", dilation=2),
    Case((4, 5), (3, 3)),
    Case((4, 3), (1, 1), channels_in=3),
    Case((4, 4), (1, 1), stride=2, channels_in=4, groups=2),
    Case((4, 5), (3, 2), padding=1),
    Case((4, 4), (3, 3), padding=1, mode="replicate", stride=2),
    Case((4, 4), (2, 3), padding=2, mode="reflect"),
    Case((4, 4), (3, 3), padding=1, mode="circular", groups=2),
    Case((5, 6), (2, 2), dilation=2, stride=3),
    Case((4, 4), (3, 3), padding=2, mode="replicate", dilation=2, groups=2, channels_in=4, channels_out=4),
    Case((3, 4, 3), (2, 2, 2), channels_in=1),
    Case((3, 3, 4), (2, 3, 1), stride=2, padding=1, mode="replicate", groups=2),
]


def variants(case, robust):
    """The variants that mean something for a case."""
    yield "plain", {}
    if robust is not None:
        yield "per_patch", {"per_patch": True}
    if any(k > 1 for k in case.kernel):  # one value per channel would have nothing to standardise
        yield "channelwise", {"channelwise": True}


GRID = [
    pytest.param(case, dict(robust=robust, **options), id=f"{case}-{robust}-{name}")
    for case in CASES
    for robust in ROBUST
    for name, options in variants(case, robust)
]


@pytest.mark.parametrize(("case", "options"), GRID)
def test_forward(case, options):
    x, w = case.data()
    correlation = case.correlation(**options)
    c = torch.tensor(1.3, dtype=torch.float64)
    expected = brute_force.similarity(x, w, c, correlation)
    for backend in ("reference", "plain"):
        actual = asking.similarity(x, w, c, correlation, backend=backend)
        for a, e, field in zip(actual, expected, expected._fields, strict=True):
            torch.testing.assert_close(a, e, rtol=0, atol=1e-10, msg=lambda m, f=field, b=backend: f"{b} {f}: {m}")


def scalars(case, options, backend):
    """Similarity and norm as a function of differentiable inputs only."""
    x, w = case.data(images=1)
    inputs = [x, w] if options["robust"] is None else [x, w, torch.tensor(1.3, dtype=torch.float64)]

    def run(x, w, c=None):
        return (asking.half_masked(x, w, c, case.correlation(**options), backend=backend),)

    return run, [i.requires_grad_() for i in inputs]


@pytest.mark.parametrize(("case", "options"), GRID)
def test_gradients(case, options):
    run, inputs = scalars(case, options, "plain")
    assert gradcheck(run, inputs, atol=1e-5)
    answers, vectors = run(*inputs), [torch.randn_like(a) for a in run(*inputs)]
    actual = torch.autograd.grad(answers, inputs, vectors)
    reference, _ = scalars(case, options, "reference")
    expected = torch.autograd.grad(reference(*inputs), inputs, vectors)
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("case", "options"), GRID)
def test_second_derivatives(case, options):
    run, inputs = scalars(case, options, "plain")
    # One random direction instead of every entry: the full check takes minutes over this grid.
    assert gradgradcheck(run, inputs, atol=1e-4, fast_mode=True)


@pytest.mark.parametrize("case", [CASES[4], CASES[12], CASES[0]], ids=str)
@pytest.mark.parametrize("robust", ROBUST)
def test_second_derivatives_in_full(case, robust):
    run, inputs = scalars(case, {"robust": robust}, "plain")
    assert gradgradcheck(run, inputs, atol=1e-4)
