"""Whole layers by Triton's kernels, as torch sees them: stages, state, derivatives, operators, and who runs what."""

import copy
import subprocess
import sys

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call, grad, vmap
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.library import opcheck

import xcnorm.nn as xnn
from tests.kernels.test_correlate import exact_products  # noqa: F401  # a fixture
from xcnorm import ops
from xcnorm.ops import triton as backend
from xcnorm.ops.triton.geometry import geometry

pytestmark = pytest.mark.usefixtures("exact_products")

LAYERS = {
    "conv1d": lambda **k: xnn.XCNormConv1d(4, 6, 3, padding=1, mask=True, **k),
    "conv2d": lambda **k: xnn.XCNormConv2d(4, 6, 3, padding="same", padding_mode="replicate", **k),
    "conv2d-paper": lambda **k: xnn.XCNormConv2d(4, 6, 3, padding=1, stride=2, preset="paper", **k),
    "conv2d-everything": lambda **k: xnn.XCNormConv2d(
        4, 6, 3, 2, 1, 1, 2, rectify="abs", gain="after_norm", mask=True, norm="none", **k
    ),
    "linear": lambda **k: xnn.XCNormLinear(12, 6, mask=True, **k),
    "robust-conv1d": lambda **k: xnn.RXCNormConv1d(4, 6, 3, padding=1, padding_mode="circular", **k),
    "robust-conv2d": lambda **k: xnn.RXCNormConv2d(4, 6, 3, padding=1, **k),
    "robust-conv2d-paper": lambda **k: xnn.RXCNormConv2d(4, 6, 3, padding=1, preset="paper", **k),
    "robust-conv2d-parameter": lambda **k: xnn.RXCNormConv2d(
        4, 6, 2, groups=2, robust="huber", scale="parameter", c_init=2.0, rectify="none", mask=True, norm="batch", **k
    ),
    "robust-linear-paper": lambda **k: xnn.RXCNormLinear(12, 6, preset="paper", **k),
}  # fmt: skip


def input_for(layer):
    sizes = () if isinstance(layer, torch.nn.Linear) else (5, 4)[: len(layer.kernel_size)]
    return torch.randn(4, 12 if isinstance(layer, torch.nn.Linear) else layer.in_channels, *sizes)


def disturbed(layer):
    """Every parameter above its start: some start where a gradient vanishes, and with tau below 1 it is unbounded."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.1 * torch.rand_like(parameter))
    return layer


def twins(make, **options):
    """The same layer three times: the reference in float64, the plain formula, and the kernels."""
    plain = disturbed(make(backend="plain", **options))
    exact, fused = make(backend="reference", **options).double(), make(backend="triton", **options)
    for layer in (exact, fused):
        layer.load_state_dict(plain.state_dict())
    return exact, plain, fused


def check_close(names, actual, plain, exact, floor=1e-5):
    for name, a, p, e in zip(names, actual, plain, exact, strict=True):
        assert a.shape == e.shape, name
        assert a.dtype == p.dtype, name
        limit = 2 * (p - e).norm() + floor * (e.norm() + 1)
        assert (a - e).norm() <= limit, f"{name}: {(a - e).norm() / limit:.1f} times the limit"


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_layer_equals_the_reference(name, training):
    """Output, all gradients, and all moving averages, after two batches."""
    layers = twins(LAYERS[name])
    x = input_for(layers[0])
    results = []
    for layer in layers:
        layer.train()
        first = layer(x.to(layer.weight.dtype).mul(2))
        layer.train(training)
        leaf = x.to(layer.weight.dtype, copy=True).requires_grad_()
        output = layer(leaf)
        vector = torch.linspace(-1, 1, output.numel(), dtype=torch.float64).sin().view_as(output)
        gradients = torch.autograd.grad(output, [leaf, *layer.parameters()], vector.to(output))
        results.append([first, output, *gradients, *(b.double() for b in layer.buffers())])
    names = [name for name, _ in (*layers[0].named_parameters(), *layers[0].named_buffers())]
    exact, plain, actual = results
    check_close(["first output", "output", "input", *names], actual, plain, exact)


@pytest.mark.parametrize("name", ["conv2d", "robust-conv2d-paper", "linear"])
def test_layer_under_float16_autocast(name):
    layers = twins(LAYERS[name])
    x = input_for(layers[0])
    results = []
    for layer in layers:
        leaf = x.to(layer.weight.dtype, copy=True).requires_grad_()
        with torch.autocast("cpu", torch.float16, enabled=layer is not layers[0]):
            output = layer(leaf)
        vector = torch.linspace(-1, 1, output.numel()).sin().view_as(output)
        results.append([output, *torch.autograd.grad(output, [leaf, layer.weight], vector.to(output))])
    exact, plain, actual = results
    check_close(["output", "input", "weight"], actual, plain, exact, floor=2**-10)


@pytest.mark.parametrize(
    "name", ["conv2d", "conv2d-everything", "robust-conv2d-paper", "robust-conv2d-parameter", "linear"]
)
def test_second_derivatives(name):
    """The derivative of an input's gradient along a direction, by everything there is; up to a tau of 2 it jumps."""
    layers = twins(LAYERS[name], tau=3.0)
    x = input_for(layers[0])
    results = []
    for layer in layers:
        leaf = x.to(layer.weight.dtype, copy=True).requires_grad_()
        output = layer(leaf)
        vector, direction = (
            torch.linspace(-1, 1, t.numel(), dtype=torch.float64).mul(9).sin().view_as(t).to(t) for t in (output, leaf)
        )
        (first,) = torch.autograd.grad(output, leaf, vector, create_graph=True)
        results.append([first, *torch.autograd.grad((first * direction).sum(), [leaf, *layer.parameters()])])
    names = [name for name, _ in layers[0].named_parameters()]
    exact, plain, actual = results
    check_close(["first", "input", *names], actual, plain, exact, floor=3e-5)


@pytest.mark.parametrize(
    ("robust", "precision"), [(None, "ieee"), (None, "convolution"), ("welsch", "ieee"), ("welsch", "half")]
)
def test_correlate_is_a_good_operator(robust, precision):
    correlation = ops.Correlation((2, 2), (2, 1), (1, 1), (1, 0, 0, 1), "replicate", 1, robust, per_patch=True)
    settings = geometry((2, 3, 2, 3), 5, correlation), "replicate", robust, True, 1e-5, precision
    data = torch.randn(2, 2, 3, 3), torch.randn(5, 3, 2, 2), torch.tensor(2.0) if robust else None
    leaves = (t if t is None else t.clone().requires_grad_() for t in data)
    opcheck(torch.ops.xcnorm.correlate, (*leaves, *settings, torch.float32))
    product, divisor, norm, deviation, _, *rest = torch.ops.xcnorm.correlate(*data, *settings, torch.float32)
    grads = torch.randn_like(product), torch.randn_like(divisor), None if precision == "convolution" else norm
    for needs in ((True, True, robust is not None), (False, True, False)):
        opcheck(torch.ops.xcnorm.correlate_backward, (*grads, *data, divisor, deviation, *rest, *needs, *settings))


@pytest.mark.parametrize("statistics", ["batch", "instance", "given", "none"])
def test_finish_is_a_good_operator(statistics):
    norm = torch.rand(3, 5, 2) + 0.5
    data = torch.randn(3, 5, 4), norm, torch.rand_like(norm), torch.rand(()) + 1, torch.rand(4)
    given = (torch.rand(4), torch.rand(4)) if statistics == "given" else (None, None)
    options = ("relu", False, statistics, 1e-5)
    opcheck(torch.ops.xcnorm.finish, (*(t.clone().requires_grad_() for t in data), *given, *options, torch.float32))
    output, *measured = torch.ops.xcnorm.finish(*data, *given, *options, torch.float32)
    given = given if statistics == "given" else measured
    opcheck(torch.ops.xcnorm.finish_backward, (output, *data, *given, *options))


def test_mask_is_a_good_operator():
    data = torch.rand(2, 3, 4, 2) + 0.1, torch.randn(2, 3, 3), torch.randn(2)
    opcheck(torch.ops.xcnorm.mask, (*(t.clone().requires_grad_() for t in data), 7))
    opcheck(torch.ops.xcnorm.mask_backward, (torch.randn_like(data[0]), *data, 7))


def test_track_is_a_good_operator():
    averages = torch.rand(4), torch.rand(4), torch.tensor(3), torch.rand(1)
    batch = torch.rand(4), torch.rand(4), torch.rand(5)
    opcheck(torch.ops.xcnorm.track, (*batch[:2], *averages[:3], batch[2], averages[3], 10, 20, 0.1, 0.2))
    opcheck(torch.ops.xcnorm.track, (None, None, None, None, None, batch[2], averages[3], 10, 20, 0.1, 0.2))
    opcheck(torch.ops.xcnorm.track, (*batch[:2], *averages[:3], None, None, 10, 20, 0.1, 0.2))


@pytest.mark.parametrize(("channels", "patches", "dtype"), [(1, 1, torch.float32), (523, 70001, torch.float16)])
def test_averages_move_like_those_of_torch(channels, patches, dtype):
    norm = torch.nn.BatchNorm1d(channels, momentum=0.3, affine=False)
    x, deviations, c = torch.randn(7, channels) + 2, torch.rand(patches), torch.tensor([3.0])
    kept = [t.to(dtype) for t in (norm.running_mean, norm.running_var)]
    batches, running_c = torch.tensor(0), c.to(dtype)
    for _ in range(2):
        norm(x)
        mean, variance = x.mean(0), x.var(0, correction=0)
        torch.ops.xcnorm.track(mean, variance, *kept, batches, deviations, running_c, 7, 2 * patches, 0.3, 0.2)
        c.lerp_(deviations.sum() / (2 * patches), 0.2)
    assert batches == 2
    for a, e in zip((*kept, running_c), (norm.running_mean, norm.running_var, c), strict=True):
        assert a.dtype == dtype
        assert (a.double() - e.double()).norm() <= (1e-6 if dtype == torch.float32 else 2**-10) * e.double().norm()


@pytest.mark.parametrize("make", [xnn.XCNormConv2d, xnn.RXCNormConv2d])
def test_a_module_in_channels_last(make):
    """Filters lie that way too."""
    layer = make(4, 6, 3, backend="triton")
    x = torch.randn(2, 4, 5, 5)
    moved = copy.deepcopy(layer).to(memory_format=torch.channels_last)
    output = moved(x.contiguous(memory_format=torch.channels_last))
    assert torch.equal(output, layer(x))
    assert output.is_contiguous(memory_format=torch.channels_last)


def test_instance_norm_passes_a_single_position_through():
    exact, plain, fused = twins(lambda **options: xnn.XCNormConv2d(3, 4, 3, **options))
    x = torch.randn(2, 3, 3, 3)
    check_close(["output"], [fused(x)], [plain(x)], [exact(x.double())])


@pytest.mark.parametrize(
    ("layer", "x"),
    [
        (xnn.XCNormConv2d(4, 6, 3, preset="paper", backend="triton"), torch.ones(1, 4, 3, 3)),
        (xnn.XCNormLinear(4, 6, backend="triton"), torch.ones(1, 4)),
    ],
    ids=["conv2d", "linear"],
)
def test_a_batch_of_one_value_has_no_statistics(layer, x):
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        layer(x)


@pytest.mark.parametrize("name", ["conv2d", "robust-conv2d-paper", "linear"])
def test_an_empty_batch_in_eval_mode(name):
    layer = LAYERS[name](backend="triton").eval()
    x = input_for(layer)
    empty = x[:0].clone().requires_grad_()
    output = layer(empty)
    assert output.shape == (0, *layer(x).shape[1:])
    output.sum().backward()
    assert all(not p.grad.any() for p in layer.parameters() if p.grad is not None)


@pytest.mark.parametrize("norm", ["instance", "batch", "none"])
def test_an_empty_batch_leaves_moving_averages_alone(norm):
    layer = xnn.RXCNormConv2d(4, 6, 3, scale="ema", norm=norm, backend="triton")
    x = input_for(layer)
    layer(x)
    before = copy.deepcopy(layer.state_dict())
    layer(x[:0])
    for name, value in layer.state_dict().items():
        if not name.endswith("num_batches_tracked"):  # torch's norms count it
            assert torch.equal(value, before[name]), name


@pytest.mark.parametrize("kind", [xnn.XCNormConv2d, xnn.RXCNormConv2d])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nothing_has_to_be_known_of_the_number_of_images(kind, dtype):
    layer, shapes = kind(4, 6, 3), ShapeEnv()
    with FakeTensorMode(shape_env=shapes, allow_non_fake_inputs=True):
        images = shapes.create_unbacked_symint()
        x, c = torch.empty(images, 4, 5, 5), torch.ones(()) if layer.robust else None
        answer = backend.respond(x, layer.weight.detach(), ops.Spec(layer.correlation, dtype, c))
    assert answer.output.shape == (images, 6, 3, 3)


def test_a_compiler_traces_a_layer_that_never_ran():
    """The kernels are first imported while it does."""
    code = """
import copy, torch, xcnorm.nn as xnn
layer = xnn.RXCNormConv2d(2, 3, 3, preset="paper", backend="triton")
twin, x = copy.deepcopy(layer), torch.randn(2, 2, 4, 5)
found = torch.compile(layer, backend="aot_eager", fullgraph=True)(x), layer.weight, *layer.buffers()
expected = twin(x), twin.weight, *twin.buffers()
found[0].sum().backward(); expected[0].sum().backward()
assert all(map(torch.equal, (*found, layer.weight.grad), (*expected, twin.weight.grad)))
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_per_sample_gradients_leave_the_kernels():
    layer = xnn.XCNormConv2d(3, 4, 3)
    parameters = {name: p.detach() for name, p in layer.named_parameters()}

    def loss(parameters, image):
        return functional_call(layer, parameters, (image.unsqueeze(0),)).square().sum()

    images = torch.randn(2, 3, 5, 5)
    each = vmap(grad(loss), in_dims=(None, 0))(parameters, images)
    first = grad(loss)(parameters, images[0])
    for name, gradient in first.items():
        torch.testing.assert_close(each[name][0], gradient)


def spec_of(layer, x):
    return layer.stages.spec(layer.correlation, layer.scale, x, x.dtype, x.dtype)


@pytest.mark.parametrize("norm", ["group", "layer"])
def test_norms_that_pool_channels_follow_the_fused_similarity(norm):
    def make(**options):
        return xnn.RXCNormConv2d(3, 6, 3, norm=norm, mask=True, **options)

    exact, plain, fused = twins(make)
    x = torch.randn(2, 3, 5, 4)
    assert spec_of(fused, x).norm is None
    assert ops.explain(fused, x).backend == "triton"
    check_close(["output"], [fused(x)], [plain(x)], [exact(x.double())])


def test_a_synchronised_norm_is_left_to_the_stages():
    layer = xnn.XCNormConv2d(3, 6, 3, norm="batch", backend="triton")
    layer.stages.norm = torch.nn.SyncBatchNorm(6, affine=False)
    x = torch.randn(2, 3, 5, 4)
    assert spec_of(layer, x).norm is None
    assert layer.eval()(x).isfinite().all()


IMAGE = torch.randn(1, 2, 5, 5)


def test_kernels_are_preferred_where_they_run():
    assert ops.explain(xnn.XCNormConv2d(2, 3, 3), IMAGE).backend == "triton"


@pytest.mark.parametrize(
    ("make", "input", "other", "reason"),
    [
        (lambda: xnn.XCNormConv2d(2, 3, 3).double(), IMAGE.double(), "plain", "the input is float64"),
        (lambda: xnn.XCNormConv2d(2, 3, 3, channelwise=True), IMAGE, "cpu", "channelwise=True standardises"),
        (lambda: xnn.XCNormConv3d(2, 3, 1), IMAGE.unsqueeze(-1), "cpu", "not volumes"),
        (lambda: xnn.XCNormConv2d(2, 3, 3), torch.empty(2**14, 2, 2**9, 2**9, device="meta"), "plain", "2^31 values"),
    ],
    ids=["float64", "channelwise", "volumes", "too many positions"],
)
def test_what_the_kernels_do_not_cover_falls_back_with_a_reason(make, input, other, reason):
    explanation = ops.explain(make(), input)
    assert explanation.backend == other
    assert "not triton: " in explanation.reason
    assert reason in explanation.reason


@pytest.fixture
def compiled(monkeypatch):
    """As if Triton's interpreter were off."""
    monkeypatch.setattr(backend, "_INTERPRETED", False)


@pytest.mark.usefixtures("compiled")
def test_without_the_interpreter_a_cpu_has_no_kernels(monkeypatch):
    layer, reason = xnn.XCNormConv2d(2, 3, 3), "it runs on CUDA devices, the input is on cpu"
    explanation = ops.explain(layer, IMAGE)
    assert explanation.backend == "cpu"
    assert f"not triton: {reason}" in explanation.reason
    monkeypatch.setenv("XCNORM_BACKEND", "triton")
    with pytest.raises(ValueError, match=f"XCNORM_BACKEND='triton' cannot run this layer: {reason}"):
        layer(IMAGE)


@pytest.mark.usefixtures("compiled")
def test_without_a_device_the_backend_says_so(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (triton,) = (b for b in ops.backends() if b.name == "triton")
    assert triton.unavailable() == "there is no CUDA device"


def test_without_triton_the_reason_is_that(monkeypatch):
    monkeypatch.setattr(backend, "_INSTALLED", False)
    assert "not triton: Triton is not installed" in ops.explain(xnn.XCNormConv2d(2, 3, 3), IMAGE).reason
