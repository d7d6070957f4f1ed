"""Layers whose weight is more than a parameter of their own are left alone, and named."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

import xcnorm
from tests.test_conversion import changes


def network(unusual):
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), unusual, nn.BatchNorm2d(8), nn.ReLU())


def parametrized():
    return parametrizations.weight_norm(nn.Conv2d(8, 8, 3))


def pruned():
    return prune.l1_unstructured(nn.Conv2d(8, 8, 3), "weight", 0.5)


def with_hooks_on_its_state_dict():
    convolution = nn.Conv2d(8, 8, 3)
    convolution.register_state_dict_post_hook(lambda *arguments: None)
    return convolution


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (parametrized, "its weight is parametrized"),
        (pruned, "computed before every call"),
        (with_hooks_on_its_state_dict, "hooks on its state dict"),
        (lambda: nn.LazyConv2d(8, 3), "run the model once"),
        (lambda: torch.ao.nn.quantized.Conv2d(8, 8, 3), "quantised"),
    ],
    ids=["parametrized", "pruned", "state dict", "lazy", "quantised"],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*deprecated", "ignore:Lazy modules")
def test_what_is_kept_and_why(make, reason):
    unusual = make()
    model = xcnorm.convert(network(unusual))
    assert model[3] is unusual
    assert reason in changes(model)["3"].reason
    assert isinstance(model[4], nn.BatchNorm2d)


def test_two_layers_with_one_weight_keep_it():
    first, second = nn.Conv2d(8, 8, 3), nn.Conv2d(8, 8, 3)
    second.weight = first.weight
    model = xcnorm.convert(nn.Sequential(nn.Conv2d(3, 8, 3), first, second))
    assert model[1].weight is model[2].weight
    assert changes(model)["1"].reason == "its weight is also that of 2"
    assert changes(model)["2"].reason == "its weight is also that of 1"


def test_where_nothing_can_be_converted_the_message_says_why():
    with pytest.raises(ValueError, match=r"nothing to convert: .* Kept were: 2 \(a patch has only 3 values"):
        xcnorm.convert(nn.Sequential(nn.Conv2d(3, 8, 1), nn.ReLU(), nn.Conv2d(3, 8, 1), nn.Linear(2, 2)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*deprecated")
def test_what_torch_has_compiled_is_named():
    compiled = torch.jit.script(nn.Conv2d(8, 8, 3))
    model = xcnorm.convert(nn.Sequential(nn.Conv2d(3, 8, 3), compiled))
    assert model[1] is compiled
    assert changes(model)["1"].reason == "compiled by torch.jit; convert before you compile"
