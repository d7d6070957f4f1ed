"""The channel norms against their definitions, and where their statistics come from."""

import math

import pytest
import torch

import xcnorm.nn as xnn
from xcnorm.errors import UserError

NEW = ("asr", "batch_test", "mixed")


def standardised(values, mean, variance, eps=1e-5):
    return (values - mean) / math.sqrt(variance + eps)


@pytest.mark.parametrize("kind", ["batch", "batch_test"])
def test_bn_test_trains_as_batch_norm(kind):
    input = torch.randn(4, 3, 5, 5)
    norm, torchs = xnn.make_norm(kind, 3, 2, affine=True), torch.nn.BatchNorm2d(3)
    torch.testing.assert_close(norm(input), torchs(input))
    for key, value in torchs.state_dict().items():
        torch.testing.assert_close(norm.state_dict()[key], value)


def test_bn_test_takes_the_statistics_of_the_test_batch_and_moves_no_average():
    norm = xnn.BatchTestNorm(3, affine=False, dtype=torch.float64).eval()
    input = 3 * torch.randn(2, 3, 4, dtype=torch.float64) + 7
    before = {key: value.clone() for key, value in norm.state_dict().items()}
    output = norm(input)
    for channel in range(3):
        values = input[:, channel]
        mean = values.sum() / 8
        expected = standardised(values, mean, float(((values - mean) ** 2).sum() / 8))
        torch.testing.assert_close(output[:, channel], expected)
    assert all(torch.equal(norm.state_dict()[key], value) for key, value in before.items())


def test_bn_test_of_one_image_is_an_instance_norm():
    image = torch.randn(1, 3, 4, 4)
    output = xnn.BatchTestNorm(3, affine=False).eval()(image)
    torch.testing.assert_close(output, torch.nn.functional.instance_norm(image))


def test_bn_test_of_a_single_value_falls_back_on_the_averages():
    norm = xnn.BatchTestNorm(3).eval()
    norm.running_mean.fill_(1.0)
    value = torch.randn(1, 3, 1, 1)
    torch.testing.assert_close(norm(value), (value - 1) / math.sqrt(1 + 1e-5))


@pytest.mark.parametrize("layer", [xnn.XCNormConv2d, xnn.RXCNormConv2d])
def test_bn_test_inside_a_layer_is_bn_test_behind_it(layer):
    torch.manual_seed(0)
    whole, bare = layer(4, 6, 3, norm="batch_test").eval(), layer(4, 6, 3, norm="none").eval()
    bare.load_state_dict({key: value for key, value in whole.state_dict().items() if "norm" not in key})
    for count in (3, 1):
        input = torch.randn(count, 4, 7, 7)
        torch.testing.assert_close(whole(input), xnn.BatchTestNorm(6).eval()(bare(input)), rtol=1e-4, atol=1e-5)
    assert whole(torch.randn(1, 4, 3, 3)).isfinite().all()  # a single value


def test_a_mix_of_batch_and_instance_statistics():
    norm = xnn.MixedNorm(2, affine=True, dtype=torch.float64)
    with torch.no_grad():
        norm.mean_logit.fill_(math.log(0.3 / 0.7))
        norm.variance_logit.fill_(math.log(0.9 / 0.1))
        norm.weight.copy_(torch.tensor([2.0, 3.0]))
        norm.bias.copy_(torch.tensor([0.5, -0.5]))
    input = 2 * torch.randn(3, 2, 4, dtype=torch.float64) + 1

    def check(batch_mean, batch_variance):
        output = norm(input)
        for n in range(3):
            for c in range(2):
                values = input[n, c]
                own = values.sum() / 4
                mean = 0.3 * own + 0.7 * batch_mean[c]
                variance = 0.9 * ((values - own) ** 2).sum() / 4 + 0.1 * batch_variance[c]
                expected = standardised(values, mean, float(variance)) * norm.weight[c] + norm.bias[c]
                torch.testing.assert_close(output[n, c], expected)

    pooled = input.transpose(0, 1).reshape(2, -1)
    means = pooled.sum(1) / 12
    variances = ((pooled - means[:, None]) ** 2).sum(1) / 12
    check(means, variances)
    torch.testing.assert_close(norm.running_mean, 0.1 * means)
    torch.testing.assert_close(norm.running_var, 0.9 + 0.1 * variances * 12 / 11)
    norm.eval()
    check(norm.running_mean, norm.running_var)


def test_a_mix_of_nothing_but_the_batch_is_a_batch_norm():
    input = 100 + torch.randn(4, 3, 5, 5)
    norm, torchs = xnn.MixedNorm(3), torch.nn.BatchNorm2d(3)
    with torch.no_grad():
        norm.mean_logit.fill_(-100)
        norm.variance_logit.fill_(-100)
    for _ in range(2):
        torch.testing.assert_close(norm(input), torchs(input), rtol=1e-4, atol=1e-4)
        norm.eval()
        torchs.eval()


def test_a_mix_of_a_single_value_is_refused_in_training():
    with pytest.raises(ValueError, match="more than 1 value per channel when training, got 1; use a larger batch"):
        xnn.MixedNorm(3)(torch.randn(1, 3, 1, 1))


@pytest.mark.parametrize("affine", [True, False])
def test_asr_norm(affine):
    torch.manual_seed(0)
    norm = xnn.AdaptiveNorm(32, affine=affine, dtype=torch.float64)
    assert norm.share_logits.tolist() == [-3, -3, -5, -5][: 4 if affine else 2]
    with torch.no_grad():
        norm.share_logits.copy_(torch.tensor([0.1, 0.2, 0.3, 0.4])[: len(norm.share_logits)])
    input = 2 * torch.randn(2, 32, 3, 3, dtype=torch.float64) + 1
    a, b, *rest = (1 / (1 + math.exp(-logit)) for logit in norm.share_logits.tolist())

    def network(part, statistic, decoder):
        code = (part.encoder_weight @ statistic + part.encoder_bias).clamp_min(0)
        return part.get_parameter(f"{decoder}_weight") @ code + part.get_parameter(f"{decoder}_bias")

    output = norm(input)
    for n in range(2):
        mean = input[n].sum((1, 2)) / 9
        deviation = (((input[n] - mean[:, None, None]) ** 2).sum((1, 2)) / 9 + 1e-5) ** 0.5
        mu = (1 - a) * mean + a * network(norm.standardise, mean, "mean")
        sigma = (1 - b) * deviation + b * network(norm.standardise, deviation, "deviation").clamp_min(0)
        expected = (input[n] - mu[:, None, None]) / sigma[:, None, None]
        if affine:
            c, d = rest
            shift = c * torch.tanh(network(norm.rescaling, mean, "mean"))
            scale = 1 + d / (1 + torch.exp(-network(norm.rescaling, deviation, "deviation")))
            expected = expected * scale[:, None, None] + shift[:, None, None]
        torch.testing.assert_close(output[n], expected)


def test_the_bottlenecks_of_asr_norm_have_the_published_widths():
    norm = xnn.AdaptiveNorm(64, affine=True)
    assert norm.standardise.encoder_weight.shape == (32, 64)
    assert norm.rescaling.encoder_weight.shape == (4, 64)
    assert not [module for module in norm.modules() if isinstance(module, torch.nn.Linear)]  # no layers of the model


def test_asr_norm_starts_close_to_an_instance_norm():
    torch.manual_seed(0)
    input = torch.randn(4, 32, 8, 8)
    expected = torch.nn.functional.instance_norm(input)
    assert (xnn.AdaptiveNorm(32)(input) - expected).norm() < 0.1 * expected.norm()


def test_asr_norm_lets_a_single_position_pass():
    input = torch.randn(2, 32, 1, 1)
    assert torch.equal(xnn.AdaptiveNorm(32)(input), input)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", NEW)
def test_gradients(kind, training):
    torch.manual_seed(0)
    norm = xnn.make_norm(kind, 3, 1, affine=True, dtype=torch.float64).train(training)
    names, values = zip(*norm.named_parameters(), strict=True)
    buffers = {name: value.clone() for name, value in norm.named_buffers()}

    def call(input, *values):
        state = {**dict(zip(names, values, strict=True)), **{name: value.clone() for name, value in buffers.items()}}
        return torch.func.functional_call(norm, state, input)

    input = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(call, (input, *values))


@pytest.mark.parametrize("kind", xnn.NORMS)
@pytest.mark.parametrize("positions", [1, 2, 3])
def test_every_norm_keeps_shape_and_dtype_and_comes_back_from_its_state(kind, positions):
    input = torch.randn(3, 32, *(4, 3, 2)[:positions])
    norm, other = (xnn.make_norm(kind, 32, positions, affine=True) for _ in range(2))
    assert norm(input).shape == input.shape
    assert norm(input.bfloat16()).dtype in (torch.bfloat16, torch.float32)
    other.load_state_dict(norm.state_dict())
    assert torch.equal(other.eval()(input), norm.eval()(input))


@pytest.mark.parametrize("kind", [name for name, norm in xnn.NORMS.items() if norm.per_image])
def test_a_dense_layer_refuses_statistics_of_single_images(kind):
    with pytest.raises(ValueError, match=f"norm='{kind}' is undefined for a dense layer"):
        xnn.XCNormLinear(8, 4, norm=kind)


def test_statistics_of_a_batch_are_shared_between_processes_or_refused():
    norm = xnn.BatchTestNorm(3)
    assert type(xnn.synchronise(norm)) is xnn.SyncBatchTestNorm
    image = torch.randn(1, 3, 4, 4)
    torch.testing.assert_close(norm.eval()(image), torch.nn.functional.instance_norm(image))
    assert type(xnn.synchronise(xnn.AdaptiveNorm(3))) is xnn.AdaptiveNorm
    with pytest.raises(UserError, match=r"^the model is a MixedNorm, which cannot share its statistics"):
        xnn.synchronise(xnn.MixedNorm(3))
    with pytest.raises(UserError, match=r"^0 is a DecoupledConv2d, which cannot share its statistics"):
        xnn.synchronise(torch.nn.Sequential(xnn.find_form("decoupled").convolution(3, 4, 3)))
    unbounded = xnn.find_form("decoupled").convolution(3, 4, 3, magnitude="linear")
    assert xnn.synchronise(unbounded) is unbounded
