"""Response maps: those of the first layer, with its norm and activation, whatever form the layer has."""

import pytest
import torch
from torch import nn

import xcnorm
from xcnorm.playground.maps import FirstMaps, drawn, moved

PICTURE = torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(2))


def maps_of(network):
    first = FirstMaps()
    with first.watching(network.eval()), torch.no_grad():
        network(PICTURE)
    return first.maps


@pytest.mark.parametrize("inplace", [False, True])
def test_of_a_convolution_they_are_taken_behind_norm_and_activation(inplace):
    head = nn.Sequential(nn.Conv2d(3, 20, 3), nn.BatchNorm2d(20), nn.ReLU(inplace))
    network = nn.Sequential(head, nn.MaxPool2d(2), nn.Conv2d(20, 20, 3), nn.ReLU())
    assert torch.equal(maps_of(network), head(PICTURE)[0])


@pytest.mark.parametrize("layer", ["conv", "xcnorm", "r_xcnorm", "bcos"])
def test_of_a_network_of_ours_they_are_those_of_its_first_layer(layer):
    network = xcnorm.create_model("digits_cnn", layer, num_classes=3).eval()
    assert torch.equal(maps_of(network), network.trunk[0](PICTURE)[0])


def test_a_network_without_a_convolution_has_none():
    assert maps_of(nn.Sequential(nn.Flatten(), nn.Linear(768, 3))) is None


def test_nothing_is_left_on_the_network():
    network = nn.Sequential(nn.Conv2d(3, 4, 3))
    with pytest.raises(RuntimeError, match="stop"), FirstMaps().watching(network):
        raise RuntimeError("stop")
    assert not network[0]._forward_hooks


@pytest.mark.parametrize(("channels", "shape"), [(64, (23, 19)), (16, (23, 19)), (5, (23, 9)), (1, (23, 4))])
def test_maps_are_drawn_as_tiles_in_the_shades_of_before(channels, shape):
    before = torch.rand(channels, 5, 4, generator=torch.Generator().manual_seed(4))
    assert drawn(before, before).shape == shape
    tile = drawn(before, before)[:5, :4]
    assert (tile.min(), tile.max()) == (0, 255)
    assert not drawn(before, before - 2)[:5, :4].any()


def test_how_far_maps_have_moved_is_a_share_of_their_length():
    before = torch.ones(2, 3, 3)
    assert moved(before, before) == 0
    assert moved(before, 3 * before) == pytest.approx(2)
