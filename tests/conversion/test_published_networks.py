"""The networks of torchvision and timm, where those are installed."""

import pytest
import torch

import xcnorm
from tests.test_conversion import changes

TORCHVISION = ("resnet18", "densenet121", "vgg11_bn", "mobilenet_v3_small", "efficientnet_b0", "convnext_tiny")
TIMM = ("resnet18", "densenet121", "vgg11_bn", "mobilenetv3_small_100", "efficientnet_b0", "convnext_atto")


def torchvision_network(name):
    package = pytest.importorskip("torchvision.models", reason="torchvision is not installed")
    return package.get_model(name, weights=None, num_classes=5)


def timm_network(name):
    package = pytest.importorskip("timm", reason="timm is not installed")
    return package.create_model(name, pretrained=False, num_classes=5)


@pytest.mark.parametrize(
    ("make", "name"), [*((torchvision_network, each) for each in TORCHVISION), *((timm_network, each) for each in TIMM)]
)
def test_a_published_network_is_converted_comes_back_and_lives(make, name):
    model, images = make(name).eval(), torch.rand(2, 3, 96, 96)
    layers = {path for path, module in model.named_modules() if isinstance(module, torch.nn.Conv2d | torch.nn.Linear)}
    with torch.no_grad():
        expected = model(images)
        model = xcnorm.convert(model)
        assert layers <= set(changes(model))
        model = xcnorm.revert(model)
        assert torch.equal(model(images), expected)
        logits = xcnorm.convert(model).train()(torch.randn(4, 3, 96, 96))
    assert logits.isfinite().all()
    assert logits.std(0).max() > 1e-4
