"""Layers as torch modules: geometry, options, state, devices, dtypes, transforms."""

import copy
import inspect
import itertools
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch.func import functional_call, grad, vmap

import xcnorm.functional as xf
import xcnorm.nn as xnn
from tests.nn.layers import BARE, CONVOLUTIONS, LAYERS, input_for


@pytest.fixture(params=LAYERS)
def make(request):
    return LAYERS[request.param]


@pytest.mark.parametrize("rank", CONVOLUTIONS)
def test_signature_starts_as_torchs_does(rank):
    plain, *ours = CONVOLUTIONS[rank]
    torchs = list(inspect.signature(plain.__init__).parameters)
    for layer in ours:
        mine = inspect.signature(layer.__init__).parameters
        assert list(mine)[: len(torchs)] == torchs
        assert issubclass(layer, plain)
    assert list(inspect.signature(xnn.XCNormLinear.__init__).parameters)[:6] == list(
        inspect.signature(torch.nn.Linear.__init__).parameters
    )


GEOMETRIES = [
    dict(zip(("kernel_size", "stride", "padding", "dilation", "groups", "padding_mode"), values, strict=True))
    for values in itertools.chain(
        itertools.product([3], [1, 2], [0, 1], [1, 2], [1, 2], ["zeros", "reflect", "replicate", "circular"]),
        itertools.product([1, 2, 4], [1], ["same", "valid"], [1, 2], [1], ["zeros", "replicate"]),
    )
]


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("rank", CONVOLUTIONS)
def test_output_shape_is_torchs(rank):
    plain, *ours = CONVOLUTIONS[rank]
    x = torch.randn(1, 4, *(9, 8, 7)[:rank])
    for geometry in GEOMETRIES:
        expected = plain(4, 6, **geometry)(x).shape
        for layer in ours:
            assert layer(4, 6, **geometry)(x).shape == expected, geometry


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("rank", CONVOLUTIONS)
def test_bare_layer_is_a_torch_convolution_of_standardised_patches(rank):
    """Numerator by torch's own padding and geometry, norm by the definition: nothing else is left in the layer."""
    plain, ours, _ = CONVOLUTIONS[rank]
    x = torch.randn(2, 4, *(9, 8, 7)[:rank], dtype=torch.float64)
    for geometry in GEOMETRIES[:: 5 if rank == 3 else 1]:
        layer = ours(4, 6, dtype=torch.float64, eps=1e-9, **BARE, **geometry)
        torchs = plain(4, 6, bias=False, dtype=torch.float64, **geometry)
        torchs.weight = torch.nn.Parameter(xf.normalise_weight(layer.weight.detach()))
        box = plain(4, geometry["groups"], bias=False, dtype=torch.float64, **geometry)
        torch.nn.init.constant_(box.weight, 1 / box.weight[0].numel())
        variance = box(x.square()) - box(x).square()
        norm = (box.weight[0].numel() * variance.clamp_min(0)).sqrt().repeat_interleave(6 // geometry["groups"], 1)
        torch.testing.assert_close(layer(x), torchs(x) / norm, rtol=1e-4, atol=1e-6)


def test_unbatched_input(make):
    layer = make().eval()
    x = input_for(layer)
    torch.testing.assert_close(layer(x[2]), layer(x)[2])


def test_empty_batch_in_eval_mode(make):
    layer = make().eval()
    output = layer(input_for(layer, images=0))
    assert output.shape == (0, *layer(input_for(layer, images=1)).shape[1:])


def test_an_empty_batch_teaches_nothing(make):
    layer = make()
    layer(input_for(layer))  # moving averages leave their initial values
    before = {name: buffer.clone() for name, buffer in layer.named_buffers()}
    empty = input_for(layer, images=0).requires_grad_()
    layer(empty).sum().backward()
    assert empty.grad.shape == empty.shape
    assert all(not p.grad.any() for p in layer.parameters() if p.grad is not None)
    for name, buffer in layer.named_buffers():
        if not name.endswith("num_batches_tracked"):  # torch's norms count it
            assert torch.equal(buffer, before[name]), name


@pytest.mark.parametrize("kind", [xnn.XCNormConv2d, xnn.RXCNormConv2d])
def test_a_norm_without_momentum_averages_all_batches(kind):
    layer = kind(4, 6, 3, preset="paper")
    layer.stages.norm.momentum = None
    means = []
    layer.stages.norm.register_forward_pre_hook(lambda _, inputs: means.append(inputs[0].mean((0, 2, 3))))
    for _ in range(3):
        layer(input_for(layer))
    torch.testing.assert_close(layer.stages.norm.running_mean, torch.stack(means).mean(0))


def test_linear_takes_any_leading_axes():
    layer = xnn.XCNormLinear(12, 6)
    x = torch.randn(3, 4, 5, 12)
    torch.testing.assert_close(layer(x), layer(x.flatten(0, 2)).view(3, 4, 5, 6))


def test_repr_names_class_and_changed_options(make):
    text = repr(make())
    assert text.startswith(("XCNorm", "RXCNorm"))
    assert "tau=2.0" in repr(xnn.XCNormConv2d(3, 4, 3, tau=2.0))
    assert "robust='welsch'" in repr(xnn.RXCNormConv2d(3, 4, 3, preset="paper"))


def test_copies_and_files_give_the_same_layer(make, tmp_path):
    layer = make()
    x = input_for(layer)
    layer(x)  # moving averages leave their initial values
    layer.eval()
    expected = layer(x)
    fresh = make().eval()
    fresh.load_state_dict(layer.state_dict())
    torch.save(layer.state_dict(), tmp_path / "layer.pt")
    from_file = make().eval()
    from_file.load_state_dict(torch.load(tmp_path / "layer.pt", weights_only=True))
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), fresh, from_file):
        assert torch.equal(other(x), expected)


def test_meta_device_and_materialisation(make):
    layer = make(device="meta")
    assert all(p.is_meta for p in layer.parameters())
    assert layer(input_for(layer, device="meta")).is_meta
    layer.to_empty(device="cpu")
    for module in layer.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    assert layer(input_for(layer)).isfinite().all()


def test_skip_init():
    layer = torch.nn.utils.skip_init(xnn.RXCNormConv2d, 4, 6, 3)
    layer.reset_parameters()
    assert layer.weight.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_dtype_moves(make, dtype):
    layer = make()
    x = input_for(layer)
    layer.eval()
    expected = layer(x)
    moved = copy.deepcopy(layer).to(dtype)
    output = moved(x.to(dtype))
    assert output.dtype == dtype
    tolerance = {torch.float64: 1e-4, torch.bfloat16: 0.25, torch.float16: 0.05}[dtype]
    torch.testing.assert_close(output.float(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(make, dtype):
    layer = make()
    x = input_for(layer).requires_grad_()
    expected = layer(x)
    vector = torch.randn_like(expected)
    expected.backward(vector)
    expected_grads = [p.grad.clone() for p in (x, *layer.parameters())]
    x.grad = None
    layer.zero_grad()
    with torch.autocast("cpu", dtype):
        output = layer(x)
    assert output.dtype == dtype
    output.backward(vector.to(dtype))
    torch.testing.assert_close(output.float(), expected, rtol=0.1, atol=0.1)
    for p, e in zip((x, *layer.parameters()), expected_grads, strict=True):
        assert p.grad.dtype == p.dtype
        assert (p.grad - e).norm() <= 0.1 * e.norm() + 1e-2


def test_backward_inside_autocast_equals_backward_outside():
    layer = xnn.RXCNormConv2d(4, 6, 3)
    x = input_for(layer)
    grads = []
    for inside in (True, False):
        layer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = layer(x).float().square().mean()
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        grads.append(layer.weight.grad.clone())
    torch.testing.assert_close(*grads)


def test_per_sample_gradients_in_eval_mode(make):
    layer = make(dtype=torch.float64).eval()
    x = input_for(layer, dtype=torch.float64)
    parameters, buffers = dict(layer.named_parameters()), dict(layer.named_buffers())

    def loss(parameters, x):
        return functional_call(layer, (parameters, buffers), (x,)).square().sum()

    together = vmap(grad(loss), in_dims=(None, 0))(parameters, x)
    for i in range(len(x)):
        alone = grad(loss)(parameters, x[i])
        for name, value in alone.items():
            torch.testing.assert_close(together[name][i], value)


def test_moving_average_of_c_moves_in_training_only():
    layer = xnn.RXCNormConv2d(4, 6, 3, preset="paper")
    x = input_for(layer)
    assert layer.running_c == 10
    layer.eval()
    layer(x)
    assert layer.running_c == 10
    layer.train()
    layer(x)
    patches = F.unfold(x, 3).mT
    expected = 0.9 * 10 + 0.1 * xf.patch_deviation(patches).mean()
    torch.testing.assert_close(layer.running_c, expected)
    for _ in range(200):
        layer(x)
    torch.testing.assert_close(layer.running_c, xf.patch_deviation(patches).mean(), rtol=1e-3, atol=0)


def test_two_forwards_before_a_backward_are_allowed():
    layer = xnn.RXCNormConv2d(4, 6, 3, preset="paper")
    x = input_for(layer)
    (layer(x) + layer(2 * x)).sum().backward()


def test_learned_c_learns():
    layer = xnn.RXCNormConv2d(4, 6, 3, scale="parameter", norm="none")
    assert layer.running_c is None
    torch.testing.assert_close(layer.scale(torch.float32, torch.device("cpu")), torch.tensor(10.0))
    layer(input_for(layer)).sum().backward()
    assert layer.scale.raw_c.grad != 0


@pytest.mark.parametrize("norm", ["batch", "instance", "none"])
def test_paper_preset_is_the_chain_of_the_equations(norm):
    layer = xnn.RXCNormConv2d(4, 6, 3, preset="paper", norm=norm, dtype=torch.float64)
    torch.nn.init.normal_(layer.stages.mask.weight)
    x = input_for(layer, dtype=torch.float64)
    patches = F.unfold(x, 3).mT
    c = torch.tensor(10.0, dtype=torch.float64)
    u = xf.robust_ncc(patches, layer.weight.flatten(1), c, "welsch").mT.unflatten(2, (5, 4))
    z = xf.robust_patch_norm(patches, c, "welsch").mT.unflatten(2, (5, 4))
    u = xf.gain(xf.sharpen(xf.rectify(u, "relu"), layer.tau), layer.stages.gain)
    mask = xf.attention_mask(z / 6, layer.stages.mask.weight, layer.stages.mask.bias)  # sqrt(alpha) = 6
    u = xf.masked_similarity(u, z, mask)
    expected = u if norm == "none" else xf.channel_norm(u, norm)
    torch.testing.assert_close(layer(x), expected)


def test_presets_and_overrides():
    assert xnn.XCNormConv2d(4, 6, 3, preset="paper").options.mask is False
    robust = xnn.RXCNormConv2d(4, 6, 3, preset="paper").options
    assert (robust.mask, robust.robust, robust.scale, robust.c_init, robust.norm) == (
        True,
        "welsch",
        "ema",
        10.0,
        "batch",
    )
    assert xnn.RXCNormConv2d(4, 6, 3, preset="paper", mask=False, robust="huber").options.robust == "huber"
    assert xnn.RXCNormConv2d(4, 6, 3, scale="ema").options.c_init == 10.0
    assert xnn.RXCNormConv2d(4, 6, 3, preset="paper", scale="patch").options.c_init == 3.0


def test_gain_after_the_norm_is_a_real_gain():
    layer = xnn.XCNormConv2d(4, 6, 3, gain="after_norm")
    x = input_for(layer)
    before = layer(x)
    with torch.no_grad():
        layer.stages.gain.mul_(3)
    torch.testing.assert_close(layer(x), 3 * before)


def test_instance_norm_passes_a_single_position_through():
    x = torch.randn(3, 4, 1, 1)
    assert torch.equal(xnn.InstanceNorm(4)(x), x)
    torch.testing.assert_close(xnn.InstanceNorm(4, affine=True)(x), x)
    wide = torch.randn(3, 4, 5, 5)
    torch.testing.assert_close(xnn.InstanceNorm(4)(wide), torch.nn.InstanceNorm2d(4)(wide))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("pixels", [5, 20])
def test_instance_norm_keeps_dtype_and_memory_format(dtype, memory_format, pixels):
    norm, torchs = xnn.InstanceNorm(4, affine=True), torch.nn.InstanceNorm2d(4, affine=True)
    torch.nn.init.uniform_(norm.weight)
    torchs.load_state_dict({"weight": norm.weight.detach(), "bias": norm.bias.detach()})
    x = torch.randn(3, 4, pixels, pixels).to(dtype, memory_format=memory_format).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
        output = norm(x)
    assert output.dtype == dtype
    assert output.is_contiguous(memory_format=memory_format)
    torch.testing.assert_close(output.float(), torchs(x.float()), rtol=2e-2, atol=2e-2)
    output.sum().backward()
    assert norm.weight.grad.dtype == torch.float32


@pytest.mark.parametrize("precision", [None, torch.float16], ids=["float32", "fp16"])
def test_compiled_inference_equals_eager(precision):
    """Without anybody wanting a gradient: under no_grad, and with frozen parameters."""
    layer = xnn.RXCNormConv2d(4, 6, 3, padding=1).eval()
    plain = xnn.XCNormConv2d(4, 6, 3, padding=1).eval()
    model = torch.nn.Sequential(layer, torch.nn.Conv2d(6, 4, 1), plain).requires_grad_(False)
    x = input_for(layer)
    with torch.autocast("cpu", precision or torch.bfloat16, enabled=precision is not None):
        for context in (torch.no_grad(), torch.enable_grad()):
            torch._dynamo.reset()
            with context:
                compiled = torch.compile(model, fullgraph=True, backend="aot_eager")(x)
                torch.testing.assert_close(compiled, model(x), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("kind", xnn.NORMS)
def test_compiled_layer_equals_eager(kind):
    layer = xnn.RXCNormConv2d(4, 6, 3, padding=1, scale="ema", norm=kind)
    twin = copy.deepcopy(layer)
    compiled = torch.compile(twin, fullgraph=True, backend="aot_eager")
    x = input_for(layer)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), layer(x), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(twin.state_dict(), layer.state_dict(), rtol=1e-4, atol=1e-5)
