"""Networks, plain or on XCNorm layers."""

from xcnorm.models.about import About
from xcnorm.models.allconv import AllConv
from xcnorm.models.create import create_model, list_models, register_model
from xcnorm.models.densenet import DenseNet
from xcnorm.models.digits_cnn import DigitsCNN
from xcnorm.models.pretrained import about_pretrained, from_pretrained, save_pretrained
from xcnorm.models.resnet import ResNet
from xcnorm.models.wide_resnet import WideResNet
from xcnorm.models.wiring import Network, Wiring

__all__ = [
    "About",
    "AllConv",
    "DenseNet",
    "DigitsCNN",
    "Network",
    "ResNet",
    "WideResNet",
    "Wiring",
    "about_pretrained",
    "create_model",
    "from_pretrained",
    "list_models",
    "register_model",
    "save_pretrained",
]
