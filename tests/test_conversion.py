"""convert: what is replaced, what is kept, and that the result is alive."""

import copy
import pickle

import pytest
import torch
from torch import nn

import xcnorm
from xcnorm.models import create_model
from xcnorm.nn import RXCNormConv2d, XCNormConv2d, XCNormLayer, XCNormLinear


def small_network(**conv):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, **conv),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Conv2d(8, 8, 3, stride=2, groups=2, dilation=2, padding=2, padding_mode="circular"),
        nn.GELU(),
        nn.Conv2d(8, 16, 3),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 12),
        nn.ReLU(),
        nn.Linear(12, 5),
    )


class BasicBlock(nn.Module):
    """Shaped like torchvision's: one ReLU module runs after the first norm and after the sum."""

    def __init__(self, channels_in, channels_out, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels_out)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.downsample = None
        if stride != 1:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), nn.BatchNorm2d(channels_out)
            )

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.relu = nn.ReLU()
        self.layer1 = nn.Sequential(BasicBlock(16, 16), BasicBlock(16, 32, 2))
        self.fc = nn.Linear(32, 5)

    def forward(self, x):
        return self.fc(self.layer1(self.relu(self.bn1(self.conv1(x)))).mean((2, 3)))


def changes(model):
    return {change.name: change for change in xcnorm.conversion_report(model).changes}


def assert_alive(model, size=32):
    for mode in (True, False):
        model.train(mode)
        logits = model(torch.randn(4, 3, size, size))
        assert logits.isfinite().all()
        assert logits.std(0).max() > 1e-4


def test_sequential():
    model = small_network()
    weights = copy.deepcopy(model.state_dict())
    converted = xcnorm.convert(model)
    assert converted is model
    assert [type(m).__name__ for m in model] == [
        "RXCNormConv2d", "Identity", "Identity", "Dropout", "RXCNormConv2d", "Identity", "RXCNormConv2d", "Identity",
        "ReLU", "AdaptiveAvgPool2d", "Flatten", "Linear", "ReLU", "Linear",
    ]  # fmt: skip
    for name in ("0.weight", "4.weight", "6.weight", "11.weight", "13.weight"):
        assert torch.equal(model.state_dict()[name], weights[name])
    assert model[0].padding_mode == "replicate"
    assert model[4].padding_mode == "circular"
    assert (model[4].stride, model[4].groups, model[4].dilation) == ((2, 2), 2, (2, 2))
    assert_alive(model)


def test_report_accounts_for_every_layer():
    model = xcnorm.convert(small_network())
    report = changes(model)
    assert list(report) == [str(i) for i in range(len(model))]
    assert report["13"].reason == "the classifier"
    assert report["1"].action == "removed"
    assert report["8"].action == "kept"
    assert "bias dropped" in report["0"].reason
    text = str(xcnorm.conversion_report(model))
    assert text.endswith("3 converted, 4 removed, 7 kept")
    assert "follows 0, which normalises its own channels" in text


def test_torchvision_style_resnet():
    model = xcnorm.convert(ResNet(), layer="xcnorm")
    report = changes(model)
    assert isinstance(model.conv1, XCNormConv2d)
    assert isinstance(model.bn1, nn.Identity)
    assert isinstance(model.relu, nn.Identity)
    block = model.layer1[1]
    assert isinstance(block.conv2, XCNormConv2d)
    assert isinstance(block.bn2, nn.Identity)
    assert isinstance(block.relu, nn.ReLU)  # it also runs after the sum
    assert isinstance(block.downsample[0], nn.Conv2d)
    assert not isinstance(block.downsample[0], XCNormLayer)
    assert isinstance(block.downsample[1], nn.BatchNorm2d)
    assert report["layer1.1.downsample.0"].reason == "a shortcut, which stays linear"
    assert_alive(model)


@pytest.mark.parametrize("name", ["digits_cnn", "wrn16_4", "resnet18", "densenet121"])
def test_our_own_networks(name):
    model = xcnorm.convert(create_model(name))
    assert xcnorm.conversion_report(model).count("converted") > 1
    assert_alive(model, 64)


@pytest.mark.parametrize(
    ("skip", "kept"),
    [
        ("4", {"4"}),
        (["0", "[4-5]"], {"0", "4"}),
        (nn.Conv3d, set()),
        (lambda name, module: getattr(module, "groups", 1) == 2, {"4"}),
    ],
)
def test_skip(skip, kept):
    model = xcnorm.convert(small_network(), skip=skip)
    plain = {name for name, m in model.named_children() if isinstance(m, nn.Conv2d) and not isinstance(m, XCNormLayer)}
    assert plain == kept
    assert all(changes(model)[name].reason == "skipped by request" for name in kept)
    assert isinstance(model[5], nn.GELU if "4" in kept else nn.Identity)


def test_skipping_everything_is_refused():
    with pytest.raises(ValueError, match="nothing to convert"):
        xcnorm.convert(small_network(), skip=nn.Conv2d)


def test_dense_layers_on_request():
    model = xcnorm.convert(small_network(), dense="xcnorm", norm="instance")
    assert isinstance(model[11], XCNormLinear)
    assert model[11].options.norm == "batch"
    assert isinstance(model[12], nn.Identity)
    assert type(model[13]) is nn.Linear
    assert_alive(model)


def test_first_layer_ignores_polarity_unless_told_otherwise():
    assert [xcnorm.convert(small_network())[i].options.rectify for i in (0, 4, 6)] == ["abs", "relu", "relu"]
    assert xcnorm.convert(small_network(), preset="paper")[0].options.rectify == "relu"
    assert xcnorm.convert(small_network(), rectify="none")[0].options.rectify == "none"
    assert xcnorm.convert(small_network(), rectify_first="relu")[0].options.rectify == "relu"


def test_channelwise_is_for_the_first_layer():
    model = xcnorm.convert(small_network(), channelwise=True)
    assert [model[i].options.channelwise for i in (0, 4, 6)] == [True, False, False]


def test_what_is_averaged_without_activation_is_not_normalised_to_death():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))
    model = xcnorm.convert(model)
    assert model[0].options.norm == "none"
    assert "averaged without an activation" in changes(model)["0"].reason
    assert_alive(model)


@pytest.mark.parametrize("activation", [[nn.ReLU()], []], ids=["relu", "nothing"])
def test_an_average_pool_in_the_middle_does_not_kill_either(activation):
    """A pool as large as the map: in float64, where a zero cannot hide behind amplified rounding."""
    body = nn.Sequential(nn.Conv2d(3, 8, 3), *activation, nn.AvgPool2d(30))
    model = nn.Sequential(body, nn.Conv2d(8, 16, 3, padding=1), nn.Flatten(), nn.Linear(16, 5))
    model = xcnorm.convert(model).double()
    assert isinstance(model[0][1], nn.ReLU if activation else nn.AvgPool2d)
    assert model[0](torch.randn(4, 3, 32, 32, dtype=torch.float64)).std(0).max() > 1e-4


def test_small_patches_and_depthwise_convolutions_stay():
    model = nn.Sequential(nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 3, groups=8), nn.Conv2d(8, 8, 3))
    xcnorm.convert(model)
    assert [isinstance(m, XCNormLayer) for m in model] == [False, False, True]
    assert changes(model)["1"].reason == "a patch has only 9 values, fewer than 16"


def test_a_shared_layer_stays_shared():
    shared = nn.Conv2d(8, 8, 3, padding=1)
    model = xcnorm.convert(nn.Sequential(nn.Conv2d(3, 8, 3), shared, shared, nn.ReLU()))
    assert model[1] is model[2]
    assert isinstance(model[1], RXCNormConv2d)


def test_a_single_convolution_becomes_a_single_layer():
    layer = xcnorm.convert(nn.Conv2d(3, 8, 3), layer="xcnorm")
    assert isinstance(layer, XCNormConv2d)
    assert xcnorm.conversion_report(layer).count("converted") == 1


@pytest.mark.parametrize("rank", [1, 3])
def test_other_ranks(rank):
    plain = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[rank - 1]
    model = xcnorm.convert(nn.Sequential(plain(4, 8, 5), nn.ReLU(), plain(8, 8, 3), nn.ReLU()))
    assert model(torch.randn(2, 4, *(9,) * rank)).isfinite().all()


def test_what_has_no_xcnorm_form_is_kept_and_said():
    class Odd(nn.Conv2d):
        pass

    model = xcnorm.convert(nn.Sequential(nn.Conv2d(3, 8, 3), Odd(8, 8, 3), nn.ConvTranspose2d(8, 8, 3)))
    assert changes(model)["1"].reason == "Odd has no XCNorm form"
    assert changes(model)["2"].reason == "ConvTranspose2d has no XCNorm form"


def test_frozen_weights_dtype_and_mode_are_kept():
    model = small_network(dtype=torch.float64).double().eval()
    model[0].weight.requires_grad_(False)
    layer = xcnorm.convert(model)[0]
    assert layer.weight.dtype == torch.float64
    assert not layer.weight.requires_grad
    assert not layer.training


def test_the_report_survives_copies():
    model = xcnorm.convert(small_network())
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert str(xcnorm.conversion_report(twin)) == str(xcnorm.conversion_report(model))


def test_bad_arguments_leave_the_model_alone():
    model = small_network()
    for arguments, error, message in [
        ({"layer": "xcnrom"}, ValueError, "layer 'xcnrom'; did you mean 'xcnorm'"),
        ({"dense": "conv"}, ValueError, "dense 'conv'"),
        ({"robust": "welch"}, ValueError, "did you mean 'welsch'"),
        ({"rectfy": "abs"}, TypeError, "did you mean 'rectify'"),
        ({"padding_mode": "mirror"}, ValueError, "padding_mode 'mirror'"),
    ]:
        with pytest.raises(error, match=message):
            xcnorm.convert(model, **arguments)
    assert not any(isinstance(m, XCNormLayer) for m in model.modules())
    with pytest.raises(ValueError, match="not converted"):
        xcnorm.conversion_report(model)
    with pytest.raises(ValueError, match="nothing to convert"):
        xcnorm.convert(nn.Linear(3, 4))


def test_a_fully_convolutional_classifier_stays_linear():
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 10, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
    xcnorm.convert(model)
    assert changes(model)["2"].reason == "the classifier"
    assert not isinstance(model[2], XCNormLayer)


def test_a_pre_activation_block_of_a_known_name_loses_what_follows_alone():
    """WideResNets have a BasicBlock too, whose norms run before the convolutions."""

    class BasicBlock(nn.Module):
        def __init__(self):
            super().__init__()
            self.bn1 = nn.BatchNorm2d(16)
            self.conv1 = nn.Conv2d(16, 16, 3, padding=1)
            self.bn2 = nn.BatchNorm2d(16)
            self.conv2 = nn.Conv2d(16, 16, 3, padding=1)

        def forward(self, x):
            return x + self.conv2(self.bn2(self.conv1(self.bn1(x))))

    model = xcnorm.convert(nn.Sequential(nn.Conv2d(3, 16, 3), BasicBlock()))
    assert isinstance(model[1].bn1, nn.BatchNorm2d)
    assert changes(model)["1.bn2"].reason == "follows 1.conv1, which normalises its own channels"
    assert isinstance(model[1].conv1, XCNormLayer)


def test_squeeze_and_excitation_still_sees_something():
    class SqueezeExcitation(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.avgpool = nn.AdaptiveAvgPool2d(1)
            self.fc1, self.fc2 = nn.Conv2d(channels, 16, 1), nn.Conv2d(16, channels, 1)

        def forward(self, x):
            return x * self.fc2(self.fc1(self.avgpool(x)).relu()).sigmoid()

    model = nn.Sequential(
        nn.Conv2d(3, 16, 5), nn.BatchNorm2d(16), nn.Hardswish(), SqueezeExcitation(16), nn.Conv2d(16, 8, 3), nn.ReLU()
    )
    model = xcnorm.convert(model)
    assert model[0].options.norm == "none"
    assert changes(model)["3.fc1"].reason == "works on pooled values, as in squeeze and excitation"


def test_an_explicit_norm_is_honoured_before_a_pool():
    model = xcnorm.convert(nn.Sequential(nn.Conv2d(3, 8, 3), nn.AvgPool2d(2), nn.Conv2d(8, 8, 3)), norm="batch")
    assert model[0].options.norm == "batch"


def test_first_means_the_layer_that_sees_the_image():
    model = xcnorm.convert(small_network(), skip="0")
    assert model[4].options.rectify == "relu"
    again = xcnorm.convert(nn.Sequential(model, nn.Conv2d(5, 8, 3), nn.ReLU()))
    assert not any("stages" in name for name in changes(again))


def test_a_sequential_with_a_forward_of_its_own_is_not_taken_for_a_chain():
    class Backwards(nn.Sequential):
        def forward(self, x):
            for module in reversed(self):
                x = module(x)
            return x

    model = xcnorm.convert(Backwards(nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.Conv2d(3, 8, 3)))
    assert changes(model)["1"].reason == "follows 2, which normalises its own channels"
