"""Every network in every form with every norm: images tell in the logits, and gradients reach all parameters.

In float64: where a map is averaged to zero the deep networks go on to amplify the rounding errors that are left, and
in float32 those look like an answer.
"""

import pytest
import torch
from torch import nn

from tests.models.networks import LAYERS, NETWORKS
from xcnorm.models import create_model

NORMS = ("batch", "instance", "group", "layer", "none")  # tests.models.test_forms has the others


def assert_logits_tell_images_apart(logits):
    assert logits.isfinite().all()
    assert (logits[0] - logits[1]).abs().max() > 1e-5


def cancelled(name, network, norm):
    """Whether the norm that follows makes a parameter's gradient vanish, all but for its epsilon."""
    if norm in ("batch", "instance") and name.endswith(".0.bias"):  # an oddity of the published allconv
        return isinstance(network.get_submodule(name.removesuffix(".bias")), nn.Conv2d)
    return name.endswith(".gain")  # the printed place of the gain


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("name", NETWORKS)
def test_alive(name, layer, norm):
    network = create_model(name, layer, norm).double()
    images = torch.rand(3, 3, 32, 32, dtype=torch.float64)
    logits = network(images)
    assert_logits_tell_images_apart(logits)
    nn.functional.cross_entropy(logits, torch.arange(3)).backward()
    for parameter_name, parameter in network.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.isfinite().all(), parameter_name
        if not cancelled(parameter_name, network, norm):
            # The smallest that was measured is 9e-6.
            assert parameter.grad.norm() > 1e-7 * parameter.norm(), parameter_name

    large = torch.rand(2, 3, 64, 64, dtype=torch.float64)
    with torch.no_grad():
        assert_logits_tell_images_apart(network(large))
        network.eval()
        assert_logits_tell_images_apart(network(images))
        assert_logits_tell_images_apart(network(large))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("layer", ["xcnorm", "r_xcnorm"])
def test_a_gain_before_the_norm_has_a_gradient_too(layer, norm):
    network = create_model("digits_cnn", layer, norm)
    network(torch.rand(3, 3, 32, 32)).square().sum().backward()
    gains = [parameter for name, parameter in network.named_parameters() if name.endswith(".gain")]
    assert len(gains) == 2
    assert all(gain.grad.any() for gain in gains)
