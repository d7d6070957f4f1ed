"""Small networks of every kind, and what onnxruntime makes of their files."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from xcnorm.models import AllConv, DenseNet, DigitsCNN, ResNet, WideResNet, Wiring

SMALL = {
    "digits_cnn": (32, lambda layer, **options: DigitsCNN(Wiring(layer, own_norm="none", **options))),
    "allconv": (32, lambda layer, **options: AllConv(Wiring(layer, **options))),
    "wide_resnet": (16, lambda layer, **options: WideResNet(10, 1, Wiring(layer, **options))),
    "resnet": (64, lambda layer, **options: ResNet((1, 1, 1, 1), True, Wiring(layer, **options))),
    "densenet": (32, lambda layer, **options: DenseNet(16, (1, 1), Wiring(layer, **options))),
}


def make(name: str, layer: str, **options) -> nn.Module:
    """A network whose moving averages and gains are not those of the start."""
    torch.manual_seed(0)
    pixels, build = SMALL[name]
    network = build(layer, **options)
    with torch.no_grad():
        network.train()(torch.rand(2, 3, pixels, pixels))
        for key, parameter in network.named_parameters():
            if key.endswith("gain"):
                parameter.mul_(1 + torch.rand_like(parameter))
    return network.eval()


def run_onnx(path: Path, images: Tensor) -> Tensor:
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {"images": images.numpy()})[0])


def assert_alike(found: Tensor, model: nn.Module, images: Tensor) -> None:
    with torch.no_grad():
        expected = model(images)
    assert found.shape == expected.shape
    assert (found - expected).abs().max() < 2e-4 * expected.abs().max()
