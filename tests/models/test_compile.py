"""Networks compile without a graph break and export with a free batch size, and still compute the same.

Everything is compared in float64: small images leave the deep networks with maps of one or four positions, and there
they amplify rounding errors. A ReLU that falls on the other side of zero changes a float32 gradient by some per cent.
"""

import copy

import pytest
import torch

from tests.models.networks import LAYERS, NETWORKS, XCNORM_FORMS
from xcnorm.models import AllConv, DenseNet, DigitsCNN, ResNet, WideResNet, Wiring, create_model

pytestmark = pytest.mark.compile

# Depth costs minutes and brings nothing new: these are the shallowest networks with every kind of block.
SHALLOW = {
    "digits_cnn": lambda layer, **options: DigitsCNN(Wiring(layer, own_norm="none", **options)),
    "allconv": lambda layer: AllConv(Wiring(layer)),
    "wide_resnet": lambda layer: WideResNet(10, 1, Wiring(layer)),
    "resnet": lambda layer: ResNet((1, 1, 1, 1), False, Wiring(layer)),
    "resnet-bottleneck": lambda layer: ResNet((1, 1, 1, 1), True, Wiring(layer)),
    "densenet": lambda layer: DenseNet(16, (1, 2), Wiring(layer)),
}


def images(count, channels=3, dtype=torch.float64):
    return torch.rand(count, channels, 32, 32, dtype=dtype)


def assert_compiled_equals_eager(module, input, **how):
    torch._dynamo.reset()
    module.double().train()
    for part in module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.eval()  # draws other numbers when compiled
    twin = copy.deepcopy(module)
    expected, output = module(input), torch.compile(twin, fullgraph=True, **how)(input)
    torch.testing.assert_close(output, expected, rtol=1e-6, atol=1e-6)
    expected.square().sum().backward()
    output.square().sum().backward()
    for (name, parameter), same in zip(module.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(same.grad, parameter.grad, rtol=1e-5, atol=1e-9, msg=name)
    for (name, buffer), same in zip(module.named_buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(same, buffer, msg=name)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("network", SHALLOW)
def test_training_step_compiles_as_one_graph(network, layer):
    assert_compiled_equals_eager(SHALLOW[network](layer), images(2), backend="aot_eager")


@pytest.mark.parametrize("layer", XCNORM_FORMS)
def test_training_step_of_the_printed_form_compiles_as_one_graph(layer):
    network = SHALLOW["digits_cnn"](layer, preset="paper")
    assert_compiled_equals_eager(network, images(2), backend="aot_eager")


@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")  # inductor's own
@pytest.mark.parametrize("layer", XCNORM_FORMS)
@pytest.mark.parametrize("network", ["digits_cnn", "wide_resnet"])
def test_training_step_compiles_to_native_code(network, layer):
    module, channels = SHALLOW[network](layer), 3
    if network == "wide_resnet":
        # One block with padding, stride and projection: the C++ compiler takes seconds for each layer.
        module, channels = module.trunk[2], 16
    # Without vector instructions it takes half as long.
    with torch._inductor.config.patch({"cpp.simdlen": 1}):
        assert_compiled_equals_eager(module, images(2, channels))


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("network", SHALLOW)
def test_network_exports_with_a_free_batch_size(network, layer):
    module = SHALLOW[network](layer).double().eval()
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(module, (images(2),), dynamic_shapes={"input": {0: batch}})
    with torch.no_grad():
        for count in (1, 5):
            input = images(count)
            torch.testing.assert_close(program.module()(input), module(input), rtol=1e-6, atol=1e-6)


# At full depth nothing is compared: small images make the deep networks amplify rounding (see the head of this file).
# On robust layers alone, which have all that the others have and more; the shallow networks above come in every form.


@torch.no_grad()
@pytest.mark.parametrize("name", NETWORKS)
def test_network_of_full_depth_compiles_as_one_graph(name):
    torch._dynamo.reset()
    network = create_model(name, "r_xcnorm").eval()
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    assert compiled(images(2, dtype=torch.float32)).isfinite().all()


@pytest.mark.parametrize("name", NETWORKS)
def test_network_of_full_depth_exports(name):
    program = torch.export.export(create_model(name, "r_xcnorm").eval(), (images(2, dtype=torch.float32),))
    assert program.module()(images(2, dtype=torch.float32)).shape == (2, 10)
