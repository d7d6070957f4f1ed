"""What the tests of the networks iterate over."""

import torch

from xcnorm.models import list_models

NETWORKS = list_models()
LAYERS = ("conv", "xcnorm", "r_xcnorm")
XCNORM_FORMS = LAYERS[1:]

# Below it the last maps have four positions or one, and with instance statistics over four rectified values a deep
# network amplifies a rounding error about three times per layer. Good enough to be alive, not to compare numbers.
SMALLEST_SIZE = {name: 96 if name.startswith(("resnet", "densenet")) else 32 for name in NETWORKS}


def modules_of(network, kind):
    """All modules of exactly this kind: XCNorm layers are convolutions too, but of another kind."""
    return [module for module in network.modules() if type(module) is kind]


def plain_convolutions(network):
    return modules_of(network, torch.nn.Conv2d)
