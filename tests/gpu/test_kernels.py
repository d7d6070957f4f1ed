"""Triton's kernels, compiled: the same answers in every precision, and everything torch does with them."""

import contextlib
import copy
import itertools

import pytest
import torch
import torch.nn.functional as F

import xcnorm.nn as xnn
from xcnorm import ops
from xcnorm.models import create_model

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

PRECISIONS = ("float32", "tf32", "bfloat16", "float16")
# Of both factors of a product. Whether torch multiplies in TF32 or exactly is its choice, shape by shape.
ROUNDINGS = {"float32": 4e-6, "tf32": 2**-10, "bfloat16": 2**-8, "float16": 2**-11}
CLASSES = {"xcnorm": xnn.XCNormConv2d, "r_xcnorm": xnn.RXCNormConv2d}

# Input, filters, and the convolution's own options: both row orders, sizes that divide nothing, padding of every kind.
SHAPES = {
    "primes": ((3, 5, 13, 11), 7, {"kernel_size": 3, "padding": 1}),
    "groups": (
        (5, 12, 9, 8),
        18,
        {"kernel_size": 3, "stride": 2, "padding": 1, "groups": 3, "padding_mode": "circular"},
    ),
    "uneven": ((4, 32, 9, 10), 40, {"kernel_size": 2, "padding": "same", "padding_mode": "replicate"}),
    "position-major": ((37, 48, 7, 6), 80, {"kernel_size": 3, "padding": 1, "padding_mode": "reflect"}),
    "position-major, even": ((128, 64, 8, 8), 128, {"kernel_size": 3, "padding": 1, "stride": 2}),
}


# Every one of them compiles kernels of its own, so not all shapes come with everything.
COMBINATIONS = [
    *itertools.product(("default", "paper"), ("primes", "position-major"), PRECISIONS),
    *itertools.product(("default",), ("groups", "uneven", "position-major, even"), ("tf32", "bfloat16")),
]


@contextlib.contextmanager
def precision(name):
    """Torch's switches for one of `PRECISIONS`."""
    switches = torch.backends.cudnn, torch.backends.cuda.matmul
    before = [switch.allow_tf32 for switch in switches]
    for switch in switches:
        switch.allow_tf32 = name == "tf32"
    half = name in ("bfloat16", "float16")
    try:
        with torch.autocast("cuda", getattr(torch, name if half else "float16"), enabled=half):
            yield
    finally:
        for switch, value in zip(switches, before, strict=True):
            switch.allow_tf32 = value


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def poisoned(monkeypatch):
    """Fill every tensor that is allocated without a value with NaN: whatever a kernel forgets to write shows."""

    def poison(allocate):
        def allocated(*arguments, **options):
            tensor = allocate(*arguments, **options)
            return tensor.fill_(float("nan")) if tensor.is_floating_point() else tensor

        return allocated

    for owner, name in ((torch, "empty"), (torch, "empty_like"), (torch.Tensor, "new_empty")):
        monkeypatch.setattr(owner, name, poison(getattr(owner, name)))


def make(kind, shape, *, tau=2.0, **options):
    """A layer on the GPU with every parameter above its start, and an input and an output's gradient for it.

    Up to a tau of 1 the gradient jumps where the similarity changes its sign: roundings would be all that one sees.
    """
    size, filters, geometry = SHAPES[shape]
    layer = CLASSES[kind](size[1], filters, tau=tau, **geometry, **options).cuda()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.1 * torch.rand_like(parameter))
    x = torch.randn(size, device="cuda") + 0.3
    with torch.no_grad():
        return layer, x, torch.randn_like(copy.deepcopy(layer)(x))


def by(backend, layer, x, vector, name):
    """Output, gradients and moving averages of a copy of a layer that runs on a backend."""
    dtype = torch.float64 if backend == "reference" else torch.float32
    twin = copy.deepcopy(layer).to(dtype)
    object.__setattr__(twin, "options", copy.copy(layer.options))
    object.__setattr__(twin.options, "backend", backend)  # frozen, for good reasons that do not hold here
    leaf = x.detach().to(dtype).requires_grad_()
    with precision("float32" if backend == "reference" else name):
        output = twin(leaf)
        gradients = torch.autograd.grad(output, [leaf, *twin.parameters()], vector.to(output))
    names = ["output", "input", *(n for n, _ in twin.named_parameters()), *(n for n, _ in twin.named_buffers())]
    return dict(zip(names, [output.detach(), *gradients, *twin.buffers()], strict=True))


def assert_as_close_as(actual, plain, exact, vector, floor):
    """An error of at most twice that of the plain formula in the same precision, and a few roundings.

    Some gradients are sums over all of the output's, of either sign, that all but cancel: those of gain and tau.
    """
    for name, e in exact.items():
        a, e = actual[name].double(), e.double()
        limit = 2 * (plain[name].double() - e).norm() + floor * (e.norm() + vector.norm())
        assert (a - e).norm() <= limit, f"{name}: {(a - e).norm() / limit:.1f} times the limit"


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize(("preset", "shape", "name"), COMBINATIONS)
@pytest.mark.parametrize("kind", CLASSES)
def test_layer_equals_float64(kind, preset, shape, name):
    layer, x, vector = make(kind, shape, preset=preset)
    assert ops.explain(layer, x).backend == "triton"
    exact = by("reference", layer, x, vector, name)
    plain, actual = (by(backend, layer, x, vector, name) for backend in ("plain", "triton"))
    assert actual["output"].dtype == plain["output"].dtype
    assert_as_close_as(actual, plain, exact, vector, ROUNDINGS[name])


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("name", ["tf32", "bfloat16"])
@pytest.mark.parametrize("robust", ["welsch_signed", "huber", "cauchy", "tukey"])
def test_every_other_robust_function(robust, name):
    layer, x, vector = make("r_xcnorm", "primes", robust=robust, scale="parameter", c_init=2.0)
    exact = by("reference", layer, x, vector, name)
    plain, actual = (by(backend, layer, x, vector, name) for backend in ("plain", "triton"))
    assert_as_close_as(actual, plain, exact, vector, ROUNDINGS[name])


@pytest.mark.parametrize("name", PRECISIONS)
@pytest.mark.parametrize("make_dense", [xnn.XCNormLinear, xnn.RXCNormLinear])
def test_dense_layer_equals_float64(make_dense, name):
    layer = make_dense(67, 19, tau=2.0).cuda()  # see `make`
    x, vector = torch.randn(41, 67, device="cuda"), torch.randn(41, 19, device="cuda")
    exact = by("reference", layer, x, vector, name)
    plain, actual = (by(backend, layer, x, vector, name) for backend in ("plain", "triton"))
    assert_as_close_as(actual, plain, exact, vector, ROUNDINGS[name])


@pytest.mark.parametrize("name", PRECISIONS)
@pytest.mark.parametrize("shape", ["primes", "position-major"])
@pytest.mark.parametrize("kind", CLASSES)
def test_every_run_gives_the_same_bits(kind, shape, name):
    layer, x, vector = make(kind, shape, preset="paper")
    first = by("triton", layer, x, vector, name)
    held = []
    for i in range(5):
        held.append(torch.randn(1000 * (i + 1), device="cuda"))  # so that every run finds other memory
        again = by("triton", layer, x, vector, name)
        assert all(torch.equal(first[key], again[key]) for key in first)


@pytest.mark.parametrize("kind", CLASSES)
def test_deterministic_mode(kind):
    layer, x, vector = make(kind, "primes")
    expected = by("triton", layer, x, vector, "tf32")
    torch.use_deterministic_algorithms(True)
    try:
        actual = by("triton", layer, x, vector, "tf32")
    finally:
        torch.use_deterministic_algorithms(False)
    for name, e in expected.items():
        assert (actual[name] - e).norm() <= 1e-2 * (1 + e.norm()), name


@pytest.mark.parametrize("name", ["tf32", "bfloat16"])
@pytest.mark.parametrize("kind", CLASSES)
def test_compiled_layer_equals_eager(kind, name):
    layer, x, vector = make(kind, "primes", preset="paper")
    expected = by("triton", layer, x, vector, name)
    leaf = x.requires_grad_()
    with precision(name):
        output = torch.compile(layer, fullgraph=True)(leaf)
        gradients = torch.autograd.grad(output, [leaf, *layer.parameters()], vector.to(output))
    for a, e in zip([output, *gradients, *layer.buffers()], expected.values(), strict=True):
        assert (a.float() - e.float()).norm() <= 2 * ROUNDINGS[name] * (1 + e.float().norm())


@pytest.mark.parametrize("name", ["tf32", "bfloat16"])
@pytest.mark.parametrize("kind", CLASSES)
def test_a_replayed_training_step_equals_an_eager_one(kind, name):
    layer, x, vector = make(kind, "position-major", preset="paper")
    twins = [layer, copy.deepcopy(layer)]
    batches = torch.stack([x, 2 * x, x - 1, x.flip(0), x * x, -x])
    static = batches[0].clone()

    def step(layer, x):
        layer.zero_grad(set_to_none=True)
        with precision(name):
            output = layer(x)
        output.backward(vector.to(output))
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.sub_(0.01 * parameter.grad)

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for batch in batches[:3]:
            step(layer, static.copy_(batch))
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(layer, static)
    for batch in batches[3:]:
        static.copy_(batch)
        graph.replay()
    for batch in batches:
        step(twins[1], batch)
    for (key, a), b in zip(layer.state_dict().items(), twins[1].state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5, msg=lambda m, key=key: f"{key}: {m}")


@pytest.mark.parametrize("kind", CLASSES)
def test_second_derivatives(kind):
    layer, x, vector = make(kind, "primes", preset="paper", tau=3.0)
    direction, results = torch.randn_like(x), []
    for backend in ("reference", "plain", "triton"):
        twin = copy.deepcopy(layer).to(torch.float64 if backend == "reference" else torch.float32)
        object.__setattr__(twin, "options", copy.copy(layer.options))
        object.__setattr__(twin.options, "backend", backend)
        leaf = x.detach().to(twin.weight.dtype).requires_grad_()
        with precision("float32"):
            (first,) = torch.autograd.grad(twin(leaf), leaf, vector.to(leaf), create_graph=True)
            results.append(torch.autograd.grad((first * direction).sum(), [leaf, twin.weight]))
    exact, plain, actual = (dict(zip(("input", "weight"), result, strict=True)) for result in results)
    assert_as_close_as(actual, plain, exact, vector, 1e-5)


@pytest.mark.parametrize("kind", CLASSES)
def test_channels_last_is_neither_copied_nor_lost(kind):
    layer = CLASSES[kind](64, 8, 3, padding=1).cuda().eval()
    x = torch.randn(64, 64, 64, 64, device="cuda").contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        layer(x[:1])  # whatever the first call allocates for good
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        output = layer(x)
        peak = torch.cuda.max_memory_allocated() - before
    assert output.is_contiguous(memory_format=torch.channels_last)
    # Numerator and output, an eighth of the input each, and maps of one value per position.
    assert peak < 0.6 * x.nbytes
    moved = copy.deepcopy(layer).to(memory_format=torch.channels_last)
    assert torch.equal(moved(x[:4]), layer(x[:4]))


@pytest.mark.parametrize("kind", CLASSES)
def test_more_than_two_to_the_31_values(kind):
    """The last images of a very large batch have the answers that they have alone."""
    layer = CLASSES[kind](32, 16, 3, padding=1, norm="none").cuda()
    images, last = 70_000, 40
    x = torch.zeros(images, 32, 32, 32, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    x[-last:].normal_()
    assert x.numel() > 2**31
    results = []
    for batch in (x, x[-last:].clone(memory_format=torch.preserve_format)):
        leaf = batch.requires_grad_()
        with torch.autocast("cuda", torch.bfloat16):
            output = layer(leaf)
        vector = torch.zeros_like(output)
        vector[-last:] = 1
        (gradient,) = torch.autograd.grad(output, leaf, vector)
        results.append((output[-last:].clone(), gradient[-last:].clone()))
        del leaf, output, vector, gradient
    del x
    for a, e in zip(*results, strict=True):
        torch.testing.assert_close(a, e, rtol=2e-2, atol=2e-2)
        assert e.abs().max() > 0
    torch.cuda.empty_cache()


def test_network_equals_the_plain_backend():
    """Loss and gradients of a whole network, in float32."""
    x, labels = torch.randn(16, 3, 32, 32, device="cuda"), torch.arange(16, device="cuda") % 10
    results = []
    for backend in ("plain", "triton"):
        torch.manual_seed(0)
        model = create_model("wrn16_4", layer="r_xcnorm", backend=backend).cuda()
        with precision("float32"):
            loss = F.cross_entropy(model(x), labels)
            results.append([loss, *torch.autograd.grad(loss, list(model.parameters()))])
    for (name, _), a, e in zip([("loss", None), *model.named_parameters()], *results[::-1], strict=True):
        assert (a - e).norm() <= 1e-2 * (e.norm() + 1e-3), name
