"""The norms of a layer and of a network are torch's own, wherever torch has them: numbers, averages and state."""

import copy

import pytest
import torch
from torch import nn

import xcnorm.nn as xnn
from tests.nn.layers import BARE, CONVOLUTIONS

BATCH_NORMS = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
SETTINGS = {
    "as it is": {"affine": False},
    "another momentum": {"affine": False, "momentum": 0.7},
    "momentum one": {"affine": False, "momentum": 1.0},
    "an average of all batches": {"affine": False, "momentum": None},
    "another eps": {"affine": False, "eps": 0.1},
    "no averages": {"affine": False, "track_running_stats": False},
    "affine": {"affine": True},
}
SIZES = {1: (7,), 2: (6, 5), 3: (4, 3, 5)}


def batches(rank, count=3):
    generator = torch.Generator().manual_seed(0)
    for number in range(count):
        yield (1 + number) * torch.randn(4, 2, *SIZES[rank], generator=generator, dtype=torch.float64) + number


def a_layer_and_a_norm_behind_it(rank, robust, settings):
    """A layer whose norm is torch's own, and a layer without a norm and the same norm behind it."""
    torch.manual_seed(0)
    cls = CONVOLUTIONS[rank][1 + robust]
    layer = cls(2, 6, 3, padding=1, **{**BARE, "norm": "batch"}, dtype=torch.float64)
    layer.stages.norm = BATCH_NORMS[rank](6, dtype=torch.float64, **settings)
    bare = cls(2, 6, 3, padding=1, **BARE, dtype=torch.float64)
    bare.load_state_dict({name: value for name, value in layer.state_dict().items() if "norm" not in name})
    if settings["affine"]:
        nn.init.normal_(layer.stages.norm.weight), nn.init.normal_(layer.stages.norm.bias)
    return layer, nn.Sequential(bare, copy.deepcopy(layer.stages.norm))


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("rank", SIZES)
def test_the_batch_norm_inside_a_layer_is_torchs_behind_it(rank, robust, name):
    inside, behind = a_layer_and_a_norm_behind_it(rank, robust, SETTINGS[name])
    for mode in (True, False):
        inside.train(mode), behind.train(mode)
        for batch in batches(rank):
            ours, torchs = inside(batch), behind(batch)
            torch.testing.assert_close(ours, torchs)
            inside.zero_grad(), behind.zero_grad()
            ours.pow(3).sum().backward(), torchs.pow(3).sum().backward()
            torch.testing.assert_close(inside.weight.grad, behind[0].weight.grad)
        for (key, value), (_, expected) in zip(
            inside.stages.norm.state_dict().items(), behind[1].state_dict().items(), strict=True
        ):
            torch.testing.assert_close(value, expected, msg=key)


@pytest.mark.parametrize("rank", SIZES)
def test_a_state_dict_of_torchs_batch_norm_is_one_of_a_layers(rank):
    inside, behind = a_layer_and_a_norm_behind_it(rank, False, {"affine": False})
    for batch in batches(rank):
        behind(batch)
    assert not inside.stages.norm.running_mean.equal(behind[1].running_mean)
    inside.stages.norm.load_state_dict(behind[1].state_dict())
    inside.eval(), behind.eval()
    batch = next(batches(rank))
    torch.testing.assert_close(inside(batch), behind(batch))
    behind[1].load_state_dict(inside.stages.norm.state_dict())


@pytest.mark.parametrize("rank", SIZES)
@pytest.mark.parametrize("kind", ["instance", "group", "layer", "batch", "batch_test"])
def test_a_norm_by_name_is_torchs(kind, rank):
    torchs = {
        "instance": (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)[rank - 1](6),
        "group": nn.GroupNorm(xnn.make_norm("group", 6, rank).num_groups, 6, affine=False),
        "layer": nn.GroupNorm(1, 6, affine=False),
        "batch": BATCH_NORMS[rank](6, affine=False),
        "batch_test": BATCH_NORMS[rank](6, affine=False),
    }[kind]
    ours = xnn.make_norm(kind, 6, rank)
    for number in range(3):
        input = torch.randn(4, 6, *SIZES[rank]) * (number + 1) + number
        ours_input, torchs_input = (input.clone().requires_grad_() for _ in range(2))
        found, expected = ours(ours_input), torchs(torchs_input)
        torch.testing.assert_close(found, expected)
        found.pow(3).sum().backward(), expected.pow(3).sum().backward()
        torch.testing.assert_close(ours_input.grad, torchs_input.grad, rtol=1e-3, atol=1e-3)
    assert list(ours.state_dict()) == list(torchs.state_dict())
    for key, value in torchs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[key], value)
    if kind != "batch_test":
        torch.testing.assert_close(ours.eval()(input), torchs.eval()(input))


def test_a_dense_layers_batch_norm_is_torchs():
    inside = xnn.XCNormLinear(5, 6, **{**BARE, "norm": "batch"})
    bare, norm = xnn.XCNormLinear(5, 6, **BARE), nn.BatchNorm1d(6, affine=False)
    bare.weight = inside.weight
    for shape in ((8, 5), (2, 4, 5)):
        input = torch.randn(shape)
        torch.testing.assert_close(inside(input).flatten(0, -2), norm(bare(input).flatten(0, -2)))
    torch.testing.assert_close(dict(inside.stages.norm.state_dict()), dict(norm.state_dict()))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        inside(torch.randn(1, 5))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        norm(torch.randn(1, 6))
