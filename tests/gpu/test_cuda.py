"""The same answers on a GPU. Skipped, all of it, where there is none."""

import copy

import pytest
import torch
import torch.nn.functional as F

import xcnorm.nn as xnn
from tests.nn.layers import LAYERS, input_for
from tests.nn.test_numerics import HARD
from xcnorm.models import create_model

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.fixture(autouse=True)
def exact_matrix_products():
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def gradients(layer, x, vector):
    x = x.detach().clone().requires_grad_()
    layer.zero_grad()
    output = layer(x)
    output.backward(vector.to(output))
    return [output, x.grad, *(p.grad for p in layer.parameters())]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_layer_equals_float64_on_the_cpu(name, dtype):
    layer = LAYERS[name](dtype=torch.float64)
    x = input_for(layer, dtype=torch.float64)
    vector = torch.randn_like(layer.eval()(x))
    on_gpu = copy.deepcopy(layer).to("cuda", dtype)
    expected = gradients(layer.train(), x, vector)
    actual = gradients(on_gpu.train(), x.to("cuda", dtype), vector)
    tolerance = 1e-9 if dtype == torch.float64 else 2e-3
    for a, e in zip(actual, expected, strict=True):
        assert (a.cpu().double() - e).norm() <= tolerance * (1 + e.norm())


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("hard", HARD)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_is_finite(name, hard, dtype):
    layer = LAYERS[name]()
    x = HARD[hard](input_for(layer)).cuda().requires_grad_()
    layer.cuda()
    with torch.autocast("cuda", dtype):
        output = layer(x)
    output.float().square().sum().backward()
    assert output.isfinite().all()
    assert all(p.grad.isfinite().all() for p in (x, *layer.parameters()))


@pytest.mark.parametrize("layer", ["xcnorm", "r_xcnorm"])
@pytest.mark.parametrize("preset", ["default", "paper"])
def test_a_training_step_is_captured_as_a_graph(layer, preset):
    """Replayed steps equal eager ones, moving averages included."""
    twins = [create_model("digits_cnn", layer=layer, preset=preset).cuda()]
    twins.append(copy.deepcopy(twins[0]))
    optimisers = [torch.optim.SGD(m.parameters(), lr=0.01) for m in twins]
    batches = torch.randn(6, 8, 3, 32, 32, device="cuda")
    labels = torch.arange(8, device="cuda")
    static = batches[0].clone()

    def step(index, x):
        optimisers[index].zero_grad(set_to_none=True)
        F.cross_entropy(twins[index](x), labels).backward()
        optimisers[index].step()

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for i in range(3):
            static.copy_(batches[i])
            step(0, static)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    optimisers[0].zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        step(0, static)
    for i in range(3, 6):
        static.copy_(batches[i])
        graph.replay()
    for i in range(6):
        step(1, batches[i])
    for (name, a), b in zip(twins[0].state_dict().items(), twins[1].state_dict().values(), strict=True):
        if a.is_floating_point():
            assert (a - b).norm() <= 2e-2 * (1e-2 + b.norm()), name


@pytest.mark.parametrize("make", [xnn.XCNormConv2d, xnn.RXCNormConv2d])
def test_compiled_layer_equals_eager(make):
    layer = make(8, 16, 3, padding=1).cuda()
    x = torch.randn(4, 8, 16, 16, device="cuda")
    torch.testing.assert_close(torch.compile(layer, fullgraph=True)(x), layer(x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("pixels", [5, 20])
def test_instance_norm(dtype, memory_format, pixels):
    norm = xnn.InstanceNorm(4, affine=True, device="cuda")
    torch.nn.init.uniform_(norm.weight)
    x = torch.randn(3, 4, pixels, pixels, device="cuda").to(dtype, memory_format=memory_format).requires_grad_()
    with torch.autocast("cuda", torch.bfloat16, enabled=dtype == torch.bfloat16):
        output = norm(x)
    assert output.dtype == dtype
    assert output.is_contiguous(memory_format=memory_format)
    exact = x.detach().double().requires_grad_()
    expected = F.instance_norm(exact, weight=norm.weight.double(), bias=norm.bias.double())
    grad = torch.randn_like(expected)
    found = [output, *torch.autograd.grad(output, x, grad.to(dtype))]
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    for a, e in zip(found, [expected, *torch.autograd.grad(expected, exact, grad)], strict=True):
        assert (a.double() - e).norm() <= tolerance * e.norm()
