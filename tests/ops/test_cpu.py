"""The CPU backend against the reference in float64: all answers, all gradients, blocks and memory formats."""

import copy
import dataclasses
import itertools

import pytest
import torch
from torch.func import functional_call, vmap

import xcnorm.nn as xnn
from tests.ops import asking
from tests.ops.test_agreement import CASES, GRID, scalars
from xcnorm import ops
from xcnorm.ops.cpu import blockwise

CONVOLUTIONS = [parameters for parameters in GRID if parameters.values[0].kernel]


@pytest.fixture(autouse=True)
def poisoned():
    """Torch fills what is allocated without a value with NaN, so whatever is not written shows."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(params=[2**19, 100], ids=["one block", "blocks"])
def size(request, monkeypatch):
    monkeypatch.setattr(blockwise, "BLOCK", request.param)


def error(actual, expected):
    """Relative to the norm, and to one where that is smaller: some gradients are what is left of a cancellation."""
    assert actual.isfinite().all()
    expected = expected.double()
    return ((actual - expected).norm() / expected.norm().clamp_min(1)).item()


@pytest.mark.parametrize(("case", "options"), CONVOLUTIONS)
def test_similarity_and_gradients(case, options):
    exact, inputs = scalars(case, options, "reference")
    run, _ = scalars(case, options, "cpu")
    expected, actual = exact(*inputs), run(*(singles := [i.detach().float().requires_grad_() for i in inputs]))
    vectors = [torch.randn_like(e) for e in expected]
    gradients = torch.autograd.grad(actual, singles, [v.float() for v in vectors])
    exact_gradients = torch.autograd.grad(expected, inputs, vectors)
    for a, e in zip((*actual, *gradients), (*expected, *exact_gradients), strict=True):
        assert error(a, e) < 2e-5


@pytest.mark.parametrize("robust", [None, "welsch", "welsch_influence", "huber"])
@pytest.mark.parametrize("case", [CASES[4], CASES[12]], ids=str)
def test_second_derivatives(case, robust):
    options = {"robust": robust}
    second = []
    for backend, dtype in (("reference", torch.float64), ("cpu", torch.float32)):
        run, inputs = scalars(case, options, backend)
        inputs = [i.detach().to(dtype).requires_grad_() for i in inputs]
        first = torch.autograd.grad(sum(a.square().sum() for a in run(*inputs)), inputs, create_graph=True)
        second.append(torch.autograd.grad(sum(g.square().sum() for g in first), inputs))
    for e, a in zip(*second, strict=True):
        assert error(a, e) < 1e-4


@pytest.mark.parametrize("cls", [xnn.XCNormConv2d, xnn.RXCNormConv2d])
def test_a_backward_inside_autocast_is_in_full_precision(cls):
    layer = cls(16, 6, 3, padding=1, mask=True)
    x = torch.randn(3, 16, 8, 8, requires_grad=True)
    inputs = [x, *layer.parameters()]
    with torch.autocast("cpu", torch.bfloat16):
        output = layer(x)
        vector = torch.randn_like(output)
        inside = [torch.autograd.grad(output, inputs, vector, create_graph=create) for create in (True, False)]
    outside = torch.autograd.grad(layer(x), inputs, vector.float())
    for twice, once, expected in zip(*inside, outside, strict=True):
        assert error(twice, expected) < 1e-5
        assert error(once, expected) < 1e-5


STAGES = [
    {},
    {"preset": "paper"},
    {"rectify": "abs", "mask": True, "gain": "after_norm", "norm": "batch"},
    {"rectify": "none", "norm": "none"},
    {"rectify": "none", "tau": "none", "mask": True, "gain": "none"},
    {"rectify": "abs", "tau": "none", "mask": True, "norm": "none", "gain": "after_norm"},
    {"tau": "none", "mask": True, "norm": "batch", "gain": "after_norm"},
    {"norm": "layer", "channelwise": True},
]
GEOMETRIES = [
    {"kernel_size": 3, "padding": 1, "padding_mode": "replicate"},
    {"kernel_size": (3, 2), "padding": 1, "stride": 2, "groups": 2},
]


def pair(cls, options):
    """A layer, and the same in float64 by the reference, all parameters moved off their initial values."""
    torch.manual_seed(0)
    layer = cls(4, 6, **options)
    for name, parameter in layer.named_parameters():
        if name != "weight":
            torch.nn.init.uniform_(parameter, 0.3, 1.2)
    exact = copy.deepcopy(layer).double()
    exact.options = dataclasses.replace(exact.options, backend="reference")
    return layer, exact


def answers(layer, x, vector):
    x = x.detach().requires_grad_()
    output = layer(x)
    output.backward(vector.to(output.dtype))
    return output.detach(), x.grad, *(p.grad for p in layer.parameters()), *layer.buffers()


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=["NCHW", "NHWC"])
@pytest.mark.parametrize(
    ("cls", "options"),
    [
        pytest.param(cls, stages | geometry, id=f"{cls.__name__}-{stages}-{geometry['kernel_size']}")
        for cls, stages, geometry in itertools.product((xnn.XCNormConv2d, xnn.RXCNormConv2d), STAGES, GEOMETRIES)
    ],
)
def test_whole_layers(cls, options, memory_format):
    layer, exact = pair(cls, options)
    x = torch.randn(5, 4, 9, 8).to(memory_format=memory_format)
    assert ops.explain(layer, x).backend == "cpu"
    vector = torch.randn(layer(x).shape, dtype=torch.float64)
    layer, exact = pair(cls, options)  # with untouched moving averages
    for a, e in zip(answers(layer, x, vector), answers(exact, x.double(), vector), strict=True):
        assert error(a, e) < 1e-4
    for mode in (layer.train, layer.eval):
        mode()
        with torch.no_grad():
            silent = copy.deepcopy(layer)(x)
        torch.testing.assert_close(silent, layer(x).detach())
        assert silent.is_contiguous(memory_format=memory_format)


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize("scale", ["ema", "parameter", "patch"])
@pytest.mark.parametrize("channelwise", [False, True], ids=["", "channelwise"])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=["NCHW", "NHWC"])
@pytest.mark.parametrize("frozen", ["input", "weight"])
def test_what_needs_no_gradient_is_left_out(scale, channelwise, memory_format, frozen):
    """A first layer, or one whose filters are frozen: no gradient that nobody computed leaves a function."""
    layer, exact = pair(xnn.RXCNormConv2d, {"kernel_size": 3, "scale": scale, "channelwise": channelwise})
    x = torch.randn(5, 4, 9, 8).to(memory_format=memory_format)
    vector = torch.randn(5, 6, 7, 6, dtype=torch.float64)
    gradients = []
    for module, images in ((layer, x), (exact, x.double())):
        images.requires_grad_(frozen != "input")
        module.weight.requires_grad_(frozen != "weight")
        with torch.autograd.set_detect_anomaly(True):
            module(images).backward(vector.to(images.dtype))
        assert (module.weight if frozen == "weight" else images).grad is None
        wanted = [tensor for tensor in (images, *module.parameters()) if tensor.requires_grad]
        gradients.append([tensor.grad for tensor in wanted])
    for a, e in zip(*gradients, strict=True):
        assert error(a, e) < 1e-4


@pytest.mark.parametrize("gain", ["before_norm", "after_norm"])
def test_a_gain_of_zero_has_a_gradient(gain):
    layer, exact = pair(xnn.XCNormConv2d, {"kernel_size": 3, "gain": gain, "mask": True})
    x, vector = torch.randn(5, 4, 9, 8), torch.randn(5, 6, 7, 6, dtype=torch.float64)
    for module in (layer, exact):
        torch.nn.init.zeros_(module.stages.gain)
    for a, e in zip(answers(layer, x, vector), answers(exact, x.double(), vector), strict=True):
        assert error(a, e) < 1e-4


@pytest.mark.parametrize("cls", [xnn.XCNormConv2d, xnn.RXCNormConv2d])
def test_the_backward_keeps_no_more_than_input_numerator_and_filters(cls):
    layer, x = cls(32, 32, 3, padding=1), torch.randn(4, 32, 16, 16, requires_grad=True)
    kept = {}

    def pack(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        layer(x)
    maps = x[:, :1].untyped_storage().nbytes() / 32
    filters = 3 * layer.weight.untyped_storage().nbytes()
    # The rest are maps of one channel, some of them three times: one for each step along an axis of the kernel.
    assert sum(kept.values()) < 2 * x.untyped_storage().nbytes() + filters + 40 * maps


def test_transforms_and_other_dtypes_go_to_the_plain_backend():
    layer, x = xnn.RXCNormConv2d(4, 6, 3), torch.randn(3, 4, 8, 8)
    parameters, buffers = dict(layer.named_parameters()), dict(layer.named_buffers())
    each = vmap(lambda image: functional_call(layer, (parameters, buffers), (image,)))(x)
    torch.testing.assert_close(each, layer(x))
    for other, reason in ((x.double(), "it computes in float32"), (x[:0], "the batch is empty")):
        with pytest.raises(ValueError, match=reason):
            asking.similarity(other, layer.weight, torch.tensor(1.0), layer.correlation, backend="cpu")


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize("cls", [xnn.XCNormConv2d, xnn.RXCNormConv2d])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("gradient", [False, True], ids=["inference", "training"])
def test_a_traced_layer_takes_any_batch(cls, gradient):
    """Blocks of images would be written into the trace."""
    layer, x = cls(4, 6, 3, padding=1, norm="instance").eval(), torch.randn(9, 4, 8, 8)
    with torch.set_grad_enabled(gradient):
        traced = torch.jit.trace(layer, x[:2])
        torch.testing.assert_close(traced(x), layer(x))
