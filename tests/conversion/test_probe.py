"""With a batch, maps of a single position are known where the forward cannot be traced, too."""

import pytest
import torch
from torch import nn

import xcnorm
from tests.test_conversion import changes
from xcnorm.nn import XCNormLayer


class Gate(nn.Module):
    """Squeezes by a mean, so that no module shows it; its forward looks at values, so that it cannot be traced."""

    def __init__(self, channels):
        super().__init__()
        self.pool = nn.AvgPool2d(2)
        self.narrow, self.wide = nn.Conv2d(channels, 16, 1), nn.Conv2d(16, channels, 1)

    def forward(self, x):
        if x.sum() == 0:
            return x
        return x * self.wide(self.narrow(x.mean((2, 3), keepdim=True)).relu()).sigmoid()


class Mixing(Gate):
    """With 1x1 convolutions on whole maps, beside a pool that is not theirs."""

    def forward(self, x):
        return x if x.sum() == 0 else self.pool(self.wide(self.narrow(x)))


def network(block):
    return nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), block, nn.Conv2d(16, 8, 3), nn.Flatten())


@pytest.mark.parametrize(("block", "converted"), [(Gate, False), (Mixing, True)])
def test_a_batch_shows_what_cannot_be_traced(block, converted):
    model = network(block(16)).train()
    averages = model[1].running_mean.clone()
    model = xcnorm.convert(model, batches=[torch.rand(4, 3, 32, 32)], norm="none")
    assert isinstance(model[3].narrow, XCNormLayer) == converted
    assert model.training
    assert torch.equal(xcnorm.revert(model)[1].running_mean, averages)


def test_without_a_batch_a_pool_in_the_same_module_is_taken_for_theirs():
    model = xcnorm.convert(network(Mixing(16)))
    assert changes(model)["3.narrow"].reason == "works on pooled values, as in squeeze and excitation"


def test_a_batch_that_does_not_fit_leaves_the_model_alone():
    model = network(nn.Identity())
    modules = list(model)
    with pytest.raises(RuntimeError, match="channels"):
        xcnorm.convert(model, batches=[torch.rand(4, 1, 32, 32)])
    assert list(model) == modules
    assert all(module.training for module in model.modules())
