"""The networks are those of the publications, and their XCNorm forms replace what they should and nothing else."""

import math

import pytest
import torch
from torch import nn

import xcnorm.nn as xnn
from tests.models.networks import LAYERS, NETWORKS, SMALLEST_SIZE, XCNORM_FORMS, modules_of, plain_convolutions
from xcnorm.models import WideResNet, Wiring, create_model
from xcnorm.models.allconv import SigmoidGELU
from xcnorm.models.wiring import Abs


@pytest.mark.parametrize(
    ("name", "classes", "parameters"),
    [
        ("digits_cnn", 10, 4_547_466),
        ("allconv", 10, 1_409_674),
        ("wrn16_4", 10, 2_748_890),
        ("wrn40_2", 10, 2_243_546),
        ("resnet18", 1000, 11_689_512),
        ("resnet50", 1000, 25_557_032),
        ("densenet121", 1000, 7_978_856),
    ],
)
def test_number_of_parameters_is_the_published_one(name, classes, parameters):
    network = create_model(name, num_classes=classes)
    assert sum(parameter.numel() for parameter in network.parameters()) == parameters


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("digits_cnn", 1024),
        ("allconv", 192),
        ("wrn16_4", 256),
        ("wrn40_2", 128),
        ("resnet18", 512),
        ("resnet50", 2048),
        ("densenet121", 1024),
    ],
)
def test_logits_are_the_linear_classifier_of_the_embedding(name, size):
    network = create_model(name, "xcnorm", num_classes=7).eval()
    images = torch.rand(2, 3, 32, 32)
    features = network.features(images)
    assert network.embedding_size == size
    assert features.shape == (2, size)
    assert type(network.classifier) is nn.Linear
    torch.testing.assert_close(network(images), network.classifier(features), rtol=0, atol=0)
    assert network(images).shape == (2, 7)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_state_dict_carries_a_network_over(name, layer):
    source, target = create_model(name, layer, "batch"), create_model(name, layer, "batch")
    images = torch.rand(3, 3, 32, 32)
    source(images)  # moves the running statistics
    target.load_state_dict(source.state_dict())
    torch.testing.assert_close(target.eval()(images), source.eval()(images), rtol=0, atol=0)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("name", NETWORKS)
def test_images_may_have_other_channels(name, layer):
    assert create_model(name, layer, in_channels=5)(torch.rand(2, 5, 32, 32)).shape == (2, 10)


@pytest.mark.parametrize(
    ("name", "shortcuts", "relus"),
    [
        ("digits_cnn", 0, 2),  # after the two linear dense layers
        ("allconv", 0, 1),
        ("wrn16_4", 3, 1),
        ("wrn40_2", 3, 1),
        ("resnet18", 3, 1),
        ("resnet50", 4, 1),
        ("densenet121", 0, 4),  # three transitions
    ],
)
@pytest.mark.parametrize("layer", XCNORM_FORMS)
def test_only_shortcuts_stay_plain_and_relus_stand_only_before_average_pools(name, shortcuts, relus, layer):
    network, published = create_model(name, layer), create_model(name)
    replaced = [module for module in network.modules() if isinstance(module, xnn.XCNormLayer)]
    kind = xnn.RXCNormConv2d if layer == "r_xcnorm" else xnn.XCNormConv2d
    assert {type(module) for module in replaced} == {kind}
    assert len(plain_convolutions(network)) == shortcuts
    assert all(conv.kernel_size == (1, 1) for conv in plain_convolutions(network))
    assert len(replaced) + shortcuts == len(plain_convolutions(published))
    assert len(modules_of(network, nn.ReLU)) == relus
    assert not modules_of(network, SigmoidGELU)
    assert {module.padding_mode for module in replaced} == {"replicate"}
    assert {conv.padding_mode for conv in plain_convolutions(published)} == {"zeros"}


@pytest.mark.parametrize("layer", XCNORM_FORMS)
@pytest.mark.parametrize("name", NETWORKS)
def test_only_the_first_layer_ignores_polarity(name, layer):
    network = create_model(name, layer)
    rectified = [module.options.rectify for module in network.modules() if isinstance(module, xnn.XCNormLayer)]
    assert rectified == ["abs"] + ["relu"] * (len(rectified) - 1)


@pytest.mark.parametrize("layer", XCNORM_FORMS)
@pytest.mark.parametrize("name", NETWORKS)
def test_brightness_contrast_and_polarity_of_an_image_make_no_difference(name, layer):
    network = create_model(name, layer, eps=1e-12).double().eval()
    image = torch.rand(2, 3, SMALLEST_SIZE[name], SMALLEST_SIZE[name], dtype=torch.float64)
    for changed in (0.3 * image + 0.5, 1 - image):
        torch.testing.assert_close(network(changed), network(image), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layer", XCNORM_FORMS)
@pytest.mark.parametrize("name", [name for name in NETWORKS if name.startswith("wrn")])
def test_a_patch_of_fewer_than_16_values_stays_a_plain_unit(name, layer):
    stem = create_model(name, layer, in_channels=1).trunk[0]
    assert [type(part) for part in stem] == [nn.Conv2d, xnn.InstanceNorm, Abs]
    assert type(create_model("digits_cnn", layer, in_channels=1).trunk[0]) is not nn.Sequential


def test_digits_cnn_has_biases_exactly_where_no_norm_follows():
    assert all(conv.bias is not None for conv in plain_convolutions(create_model("digits_cnn")))
    assert all(conv.bias is None for conv in plain_convolutions(create_model("digits_cnn", norm="batch")))


def test_the_adaptive_pool_of_digits_cnn_is_the_identity_at_32_pixels():
    trunk = create_model("digits_cnn").trunk
    maps = trunk[:4](torch.rand(2, 3, 32, 32))
    torch.testing.assert_close(trunk[4](maps), maps, rtol=0, atol=0)


def test_allconv_keeps_the_oddities_of_the_public_code():
    network = create_model("allconv").eval()
    pool = [type(part) for part in network.trunk].index(nn.AvgPool2d)
    assert network.trunk[:pool](torch.rand(1, 3, 32, 32)).shape == (1, 192, 10, 10)
    assert all(conv.bias is not None for conv in plain_convolutions(network))
    x = torch.linspace(-3, 3, 7)
    torch.testing.assert_close(SigmoidGELU()(x), nn.functional.gelu(x), rtol=0, atol=0.03)


def test_a_wide_block_projects_its_activated_input():
    block = create_model("wrn16_4").trunk[1].eval()
    x = torch.randn(2, 16, 8, 8)
    activated = x.relu() / math.sqrt(1 + 1e-5)  # the norm's fresh statistics are 0 and 1
    expected = block.residual(activated) + block.projection(activated)
    torch.testing.assert_close(block(x), expected)


@pytest.mark.parametrize("layer", LAYERS)
def test_the_identity_path_is_untouched(layer):
    block = create_model("wrn16_4", layer).trunk[2].eval()
    x = torch.randn(2, 64, 8, 8)
    torch.testing.assert_close(block(x) - block.residual(block.before(x)), x)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_resnet_block_rectifies_its_sum_only_if_plain(layer):
    block = create_model("resnet18", layer).trunk[2].eval()
    x = torch.randn(2, 64, 8, 8)
    total = block.residual(x) + x
    torch.testing.assert_close(block(x), total.relu() if layer == "conv" else total)


@pytest.mark.parametrize(
    ("name", "mode"),
    [("allconv", "fan_out"), ("wrn16_4", "fan_out"), ("resnet18", "fan_out"), ("densenet121", "fan_in")],
)
def test_plain_convolutions_start_he_normal(name, mode):
    network = create_model(name)
    for conv in plain_convolutions(network):
        fan = nn.init._calculate_correct_fan(conv.weight, mode)
        assert conv.weight.std().item() == pytest.approx(math.sqrt(2 / fan), rel=0.15)
    assert (name == "resnet18") == bool(network.classifier.bias.any())


def test_a_wide_resnet_of_another_depth():
    network = WideResNet(10, 1, Wiring("xcnorm"), num_classes=3)
    assert network(torch.rand(2, 3, 16, 16)).shape == (2, 3)
    with pytest.raises(ValueError, match=r"depth must be 6 n \+ 4 .* got 18"):
        WideResNet(18, 4, Wiring())
