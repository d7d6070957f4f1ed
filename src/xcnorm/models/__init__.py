"""Networks, plain or on XCNorm layers."""

from xcnorm.models.allconv import AllConv
from xcnorm.models.create import create_model, list_models, register_model
from xcnorm.models.densenet import DenseNet
from xcnorm.models.digits_cnn import DigitsCNN
from xcnorm.models.resnet import ResNet
from xcnorm.models.wide_resnet import WideResNet
from xcnorm.models.wiring import Network, Wiring

__all__ = [
    "AllConv",
    "DenseNet",
    "DigitsCNN",
    "Network",
    "ResNet",
    "WideResNet",
    "Wiring",
    "create_model",
    "list_models",
    "register_model",
]
