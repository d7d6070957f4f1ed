"""The similarity by Triton's kernels, with all its gradients, against the reference in float64.

What the plain backend loses in the same precision is the measure: at most twice that, and a few roundings.
"""

from dataclasses import dataclass

import pytest
import torch

from tests.ops import asking
from xcnorm import ops
from xcnorm.functional import ROBUST_FUNCTIONS
from xcnorm.ops.triton.geometry import geometry

pytestmark = pytest.mark.usefixtures("poisoned", "exact_products")

MODES = ("zeros", "reflect", "replicate", "circular")
RESULTS = ("value", "deviation", "half masked", "input's gradient", "weight's gradient", "c's gradient")
# The interpreter sums one by one, the plain backend in a tree.
ROUNDINGS = {torch.float32: 16 * 2**-23, torch.float16: 2 * 2**-10}


@pytest.fixture
def exact_products():
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


@dataclass(frozen=True)
class Case:
    """A geometry; everything is random but that."""

    shape: tuple[int, ...]
    filters: int
    kernel: tuple[int, ...] = (3, 3)
    stride: tuple[int, ...] = (1, 1)
    dilation: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0, 0, 0)
    mode: str = "zeros"
    groups: int = 1

    def correlation(self, robust=None, per_patch=False):
        rank = len(self.kernel)
        stride, dilation, padding = self.stride[:rank], self.dilation[:rank], self.padding[: 2 * rank]
        return ops.Correlation(self.kernel, stride, dilation, padding, self.mode, self.groups, robust, per_patch)

    def data(self, robust=None, c=3.0):
        x = torch.randn(self.shape) + 0.5
        weight = torch.randn(self.filters, self.shape[1] // self.groups, *self.kernel)
        return (x, weight) if robust is None else (x, weight, torch.tensor(c))


CASES = {
    "dense": Case((5, 13), 7, ()),
    "one axis": Case((3, 2, 11), 5, (3,), padding=(1, 1), mode="replicate"),
    "one axis, dilated": Case((2, 4, 9), 6, (3,), (2,), (2,), padding=(2, 1), mode="circular", groups=2),
    "one pixel": Case((1, 3, 1, 1), 2, (1, 1)),
    "one pixel and padding": Case((2, 2, 1, 1), 3, padding=(1, 1, 1, 1), mode="replicate"),
    "one channel": Case((2, 1, 5, 7), 3, (3, 2)),
    "one filter": Case((2, 3, 5, 4), 1, (2, 2)),
    "primes": Case((3, 5, 7, 5), 13, (5, 3), padding=(1, 1, 2, 2)),
    "stride": Case((2, 3, 8, 7), 4, stride=(2, 3), padding=(1, 1, 1, 1), mode="reflect"),
    "stride beyond the kernel": Case((2, 3, 8, 7), 4, (2, 1), stride=(3, 2)),
    "dilation": Case((2, 3, 5, 4), 4, dilation=(2, 3), padding=(3, 3, 2, 2), mode="replicate"),
    "dilation and stride": Case((2, 3, 9, 8), 4, stride=(2, 2), dilation=(2, 1), padding=(1, 1, 2, 2)),
    "groups": Case((2, 6, 4, 3), 9, padding=(1, 1, 1, 1), mode="circular", groups=3),
    "depthwise": Case((2, 3, 4, 3), 6, padding=(1, 1, 1, 1), groups=3),
    **{
        f"uneven padding, {mode}": Case((2, 3, 5, 6), 4, (2, 4), padding=(1, 2, 0, 1), mode=mode) for mode in MODES
    },
    "several blocks": Case((1, 66, 5, 13), 130, (1, 1)),
    "several blocks of groups": Case((5, 34, 4, 4), 34, (2, 2), groups=2),
    "weight's gradient in parts": Case((2, 3, 33, 17), 4, (2, 1)),
    "position-major": Case((33, 16, 2, 2), 5, (2, 3), padding=(1, 1, 1, 1), mode="reflect"),
    "position-major, dense": Case((70, 66), 17, ()),
    "position-major, zeros": Case((67, 17, 2, 2), 18, (2, 2), padding=(1, 1, 0, 1)),
    "position-major, stride": Case((32, 16, 4, 3), 6, stride=(2, 2), padding=(1, 1, 1, 1), mode="replicate"),
    "position-major, dilation": Case((32, 16, 4, 3), 6, (2, 2), dilation=(2, 1), padding=(1, 0, 0, 1), mode="circular"),
    "position-major, groups": Case((34, 34, 2, 2), 6, (2, 2), padding=(1, 0, 1, 0), groups=2),
    "position-major, large blocks": Case((129, 16, 1, 1), 70, (1, 1)),
}  # fmt: skip


def answers(data, correlation, vector, *, backend, dtype=torch.float32):
    """All results of a backend: similarity and deviation, a function of similarity and norm, and its gradients."""
    if backend == "reference":
        data, dtype = [t.double() for t in data], torch.float64
    leaves = [t.detach().requires_grad_() for t in data]
    how = {"compute_dtype": dtype, "backend": backend, "norm": None}
    value, deviation = asking.respond(*(*data, None)[:3], correlation, **how)
    assert not deviation.requires_grad
    if backend == "triton":
        deviation = (
            deviation.permute(2, 0, 1).unflatten(2, value.shape[2:] or (1,)).reshape_as(value[:, : correlation.groups])
        )
    half = asking.half_masked(*(*leaves, None)[:3], correlation, **how)
    return value, deviation, half, *torch.autograd.grad(half, leaves, vector.to(half))


def random_vector(data, correlation):
    """Of the shape of a similarity."""
    return torch.randn_like(asking.respond(*(*data, None)[:3], correlation, backend="reference").output)


def check(case, robust=None, *, per_patch=False, c=3.0, dtype=torch.float32, data=None, floor=None):
    data = data or case.data(robust, c)
    correlation = case.correlation(robust, per_patch)
    vector = random_vector(data, correlation)
    exact = answers(data, correlation, vector, backend="reference")
    plain = answers(data, correlation, vector, backend="plain", dtype=dtype)
    actual = answers(data, correlation, vector, backend="triton", dtype=dtype)
    for name, a, p, e in zip(RESULTS, actual, plain, exact, strict=False):
        assert a.shape == e.shape, name
        assert a.dtype == torch.float32, name
        # The gradient of c is one sum over all patches, of either sign.
        size = e.norm() if e.ndim else max(e.norm(), vector.norm())
        limit = 2 * (p - e).norm() + (floor or ROUNDINGS[dtype]) * size
        assert (a - e).norm() <= limit, f"{name}: {(a - e).norm() / limit:.1f} times the limit"


@pytest.mark.parametrize("robust", ROBUST_FUNCTIONS)
@pytest.mark.parametrize(("per_patch", "c"), [(False, 0.7), (True, 3.0)], ids=["c below the deviation", "c above it"])
def test_every_robust_function(robust, per_patch, c):
    check(Case((2, 3, 3, 4), 4, padding=(1, 1, 1, 1)), robust, per_patch=per_patch, c=c)


# Addresses are the same with and without a robust function; the input's gradient is not.
WITHOUT = (
    "dense", "one axis", "one pixel", "one pixel and padding", "one channel", "primes", "stride", "dilation and stride",
    "groups", "uneven padding, reflect", "uneven padding, circular", "several blocks", "position-major",
    "position-major, zeros", "position-major, groups",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "robust"), [*((name, "welsch_influence") for name in CASES), *((name, None) for name in WITHOUT)]
)
def test_every_geometry(name, robust):
    case = CASES[name]
    g = geometry(case.shape, case.filters, case.correlation())
    assert g.position_major == name.startswith("position-major")
    check(case, robust, per_patch=True)


@pytest.mark.parametrize("robust", [None, "welsch"])
@pytest.mark.parametrize("name", ["dense", "one axis", "groups", "position-major, zeros"])
def test_float16(name, robust):
    check(CASES[name], robust, dtype=torch.float16)


@pytest.mark.parametrize(
    "name", ["dense", "groups", "dilation and stride", "uneven padding, reflect", "position-major"]
)
@pytest.mark.parametrize("robust", [None, "welsch"])
def test_tf32(name, robust):
    """Factors of 11 significant bits."""
    torch.backends.cudnn.allow_tf32 = True
    check(CASES[name], robust, floor=2**-9)


LAYOUTS = {
    "channels last": lambda t: t.contiguous(memory_format=torch.channels_last),
    "transposed": lambda t: t.mT.contiguous().mT,
    "strided": lambda t: torch.stack([t, t], -1)[..., 0],
    "expanded": lambda t: t[:1].expand_as(t),
}


@pytest.mark.parametrize("robust", [None, "welsch"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_input_and_filters_lie_as_they_like(layout, robust):
    case = Case((2, 4, 4, 5), 3)
    x, weight, *c = case.data(robust)
    check(case, robust, data=(LAYOUTS[layout](x), LAYOUTS[layout](weight), *c))


@pytest.mark.parametrize("robust", [None, "welsch"])
@pytest.mark.parametrize("shape", [(0, 3, 4, 5), (0, 3)])
def test_an_empty_batch(robust, shape):
    check(Case(shape, 4, (3, 3)[: len(shape) - 2]), robust)


SCENES = {
    "offset": lambda x: x + 1e4,
    "step": lambda x: x + 4095.0 * (torch.arange(x.shape[-1]) > 4),
    "hot pixel": lambda x: x + 1e6 * (torch.arange(x[0].numel()) == 100).view_as(x[0]),
}


@pytest.mark.parametrize("robust", [None, "welsch_influence"])
@pytest.mark.parametrize("scene", SCENES)
def test_texture_beside_something_bright_is_not_drowned(scene, robust):
    """Every patch is centred before it is multiplied: what is left is the rounding of its own mean and deviation."""
    case = Case((1, 16, 6, 9), 8)
    x, weight, c = case.data(robust, c=3.0) if robust else (*case.data(), None)
    x, correlation = SCENES[scene](x), case.correlation(robust, per_patch=True)
    exact = asking.respond(x.double(), weight.double(), c, correlation, backend="reference").output
    plain = asking.respond(x, weight, c, correlation, backend="reference").output
    actual = asking.respond(x, weight, c, correlation, backend="triton").output
    assert (actual - exact).abs().max() <= 2 * (plain - exact).abs().max() + 2e-5
