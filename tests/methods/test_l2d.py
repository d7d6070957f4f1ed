"""L2D against its formulas."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.methods import small
from tests.methods.test_divergences import contrast_by_hand, discrepancy_by_hand
from xcnorm.data.training_images import Preparation
from xcnorm.errors import UserError
from xcnorm.methods import find_method
from xcnorm.methods.styles import Styles

SMALL = {"mix": 0.8, "rate": 0.05}


def images(count=4, pixels=9):
    return torch.randn(count, 3, pixels, pixels, generator=generator(5))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def styles(dropout=0.5, prepare=None):
    torch.manual_seed(0)
    return Styles((3, 9, 9), (3, 5), dropout, prepare or Preparation([0.1, 0.2, 0.3], [0.5, 0.6, 0.7]))


def by_modules(made, given, style, kept):
    """The generator out of torch's own modules, filled with the numbers of a style."""
    numbers = style.tolist()

    def fill(module, *, bias=True):
        for parameter in (module.weight, module.bias) if bias else (module.weight,):
            values = [numbers.pop(0) for _ in range(parameter.numel())]
            parameter.data = torch.tensor(values, dtype=torch.float64).view(parameter.shape)
        return module.double()

    branches = [torch.tanh(fill(nn.Conv2d(3, 3, 1))(given) * kept)]
    for size, scale, shift in zip((3, 5), made.scale, made.shift, strict=True):
        inner = nn.InstanceNorm2d(3)(fill(nn.Conv2d(3, 3, size), bias=False)(given))
        back = fill(nn.ConvTranspose2d(3, 3, size))
        branches.append(torch.tanh(back(scale.double() * inner + shift.double())))
    assert len(numbers) == len(branches)
    styled = torch.sigmoid(sum(weight * branch for weight, branch in zip(numbers, branches, strict=True)))
    mean, std = torch.tensor([0.1, 0.2, 0.3]).view(3, 1, 1), torch.tensor([0.5, 0.6, 0.7]).view(3, 1, 1)
    return (styled - mean) / std


def test_a_style_is_what_modules_of_torch_make_of_its_numbers():
    made, given = styles(), images()
    style, kept = made.draw(given, generator())
    expected = by_modules(made, given.double(), style, kept.double() * 2)
    torch.testing.assert_close(made(given, style, kept).double(), expected, rtol=1e-4, atol=1e-5)
    expected = by_modules(made, given.double(), made.fixed, 1.0)
    torch.testing.assert_close(made(given, made.fixed).double(), expected, rtol=1e-4, atol=1e-5)
    assert made.fixed[-3:].tolist() == pytest.approx([1 / 3] * 3)


def test_convolutions_are_drawn_as_torch_initialises_them():
    """Uniform between the bounds of a new module, which are one over the root of its inputs."""
    made, source = styles(), generator()
    drawn = torch.stack([made.draw(images(1), source)[0] for _ in range(400)])
    place = 0
    for size, parts in ((1, (9, 3)), (3, (81, 81, 3)), (5, (225, 225, 3))):
        bound = 1 / math.sqrt(3 * size**2)
        module = nn.ConvTranspose2d(3, 3, size)
        assert max(module.weight.abs().max(), module.bias.abs().max()) <= bound
        values = drawn[:, place : place + sum(parts)].flatten()
        assert 0.99 * bound < values.abs().max() <= bound
        assert abs(values.mean()) < 5 * bound / math.sqrt(3 * len(values))
        assert abs(values.square().mean() / bound**2 - 1 / 3) < 5 * math.sqrt(4 / 45 / len(values))
        place += sum(parts)
    assert drawn.shape[1] == place + 3


def test_branch_weights_make_one_together_and_stay_finite(monkeypatch):
    made, source, given = styles(), generator(), images()
    weights = torch.stack([made.draw(given, source)[0][-3:] for _ in range(400)])
    torch.testing.assert_close(weights.double().sum(1), torch.ones(400).double(), rtol=0, atol=1e-3)
    assert (weights < 0).any()
    monkeypatch.setattr(torch, "randn", lambda *shape, generator: torch.tensor([1.0, -0.5, -0.5]))
    style, kept = made.draw(given, source)
    assert style[-3:].tolist() == pytest.approx([1000, -500, -500])
    assert made(given, style, kept).isfinite().all()


@pytest.mark.parametrize("dropout", [0.0, 0.3, 0.9])
def test_colours_are_left_out_with_their_probability(dropout):
    _, kept = styles(dropout).draw(images(50), generator())
    count = kept.numel()
    assert abs(kept.sum() - count * (1 - dropout)) <= 5 * math.sqrt(count * dropout * (1 - dropout))


def test_scales_start_near_one_and_shifts_near_zero():
    torch.manual_seed(0)
    made = Styles((3, 32, 32), (3, 5), 0.5, Preparation())
    assert [tuple(each.shape) for each in made.scale] == [(3, 30, 30), (3, 28, 28)]
    for scale, shift in zip(made.scale, made.shift, strict=True):
        assert (scale.mean().item(), scale.std().item()) == pytest.approx((1, 0.1), abs=0.01)
        assert (shift.mean().item(), shift.std().item()) == pytest.approx((0, 0.01), abs=0.001)
    assert {name.split(".")[0] for name, _ in made.named_parameters()} == {"scale", "shift"}


def exact():
    """A training in float64, and what its first step is given."""
    trainer = small.trainer("l2d")
    method = trainer.objective.method
    trainer.model.double()
    method.styles.double()
    drawn = trainer.objective.draw(*next(trainer.batches), trainer.generators["method"])
    return trainer, method, [each.double() if each.is_floating_point() else each for each in drawn]


def answers(model, styled, given, noise):
    """Mean, variance and embedding of images in a style and of the images, by the layers of the network."""
    inner = model.trunk(torch.cat([styled, given]))
    mean = F.leaky_relu(F.linear(inner, model.mean[0].weight, model.mean[0].bias), 0.01)
    log_variance = F.relu(F.linear(inner, model.log_variance[0].weight, model.log_variance[0].bias))
    return mean, log_variance, mean + 0.2 * log_variance.exp().sqrt() * noise


def test_the_loss_of_the_network():
    trainer, method, drawn = exact()
    given, labels, style, kept, noise, _ = drawn
    styled = 0.8 * method.styles(given, style, kept) + 0.2 * given
    mean, log_variance, embedding = answers(trainer.model, styled, given, noise)
    logs = trainer.model.classifier(embedding).log_softmax(1)
    expected = -sum(logs[place, labels[place % 16]] for place in range(32)).item() / 32
    expected += contrast_by_hand(embedding[:16], embedding[16:], labels, 0.07)
    normal = torch.distributions.Normal(mean[16:], (log_variance[16:] / 2).exp())
    expected += (-2 * normal.log_prob(embedding[:16]).mean() - math.log(2 * math.pi)).item()
    assert method.loss(trainer.model, *drawn).item() == pytest.approx(expected, rel=1e-10)


def test_the_step_of_the_generator():
    """By its own rate down the gradient of both terms, seen by the network as in a test; no weight moves."""
    trainer, method, drawn = exact()
    given, labels, _, _, noise, order = drawn
    weights, parameters = small.weights(trainer), list(method.styles.parameters())
    trainer.model.eval()
    styled = 0.8 * method.styles(given, method.styles.fixed) + 0.2 * given
    mean, log_variance, embedding = answers(trainer.model, styled, given, noise)
    normal = torch.distributions.Normal(mean[16:], (log_variance[16:] / 2).exp())
    bound = (normal.log_prob(embedding[:16]) - normal.log_prob(embedding[:16][order])).sum(1).mean()
    loss = discrepancy_by_hand(embedding[:16], embedding[16:], labels) + 0.1 * bound
    gradients = torch.autograd.grad(loss, parameters)
    expected = [old.detach() - 0.05 * slope for old, slope in zip(parameters, gradients, strict=True)]
    assert all(slope.abs().max() > 1e-6 for slope in gradients)
    trainer.model.train()
    method.after(trainer.model, *drawn)
    torch.testing.assert_close([each.detach() for each in parameters], expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(small.weights(trainer), weights, rtol=0, atol=0)


def test_a_network_is_tested_by_its_mean():
    trainer = small.trainer("l2d")
    given = images(pixels=32)
    mean, log_variance = trainer.model.gaussian(given)
    assert torch.equal(trainer.model.features(given), mean)
    assert torch.equal(trainer.model(given), trainer.model.classifier(mean))
    assert (log_variance >= 0).all()


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("layer", ["conv", "xcnorm", "r_xcnorm"])
def test_running_statistics_are_those_of_the_first_stage(layer, precision):
    """In every form of a network with batch norm, and in half precision."""
    changes = {"model__layer": layer, "model__options": {"norm": "batch"}, "run__precision": precision}
    one, other = small.trainer("l2d", **changes), small.trainer("l2d", **changes)
    other.objective.method.after = lambda *_: None
    assert small.losses(one, 1) == small.losses(other, 1)
    torch.testing.assert_close(small.weights(one), small.weights(other), rtol=0, atol=0)
    learned = [trainer.objective.method.styles.scale[0] for trainer in (one, other)]
    assert not torch.equal(*learned)
    assert all(torch.isfinite(torch.tensor(small.losses(one, 3))))


def test_the_generator_learns_in_a_style_that_stays():
    trainer = small.trainer("l2d")
    made = trainer.objective.method.styles
    before = {name: tensor.clone() for name, tensor in made.state_dict().items()}
    small.losses(trainer, 4)
    changed = {name for name, tensor in made.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed == {"scale.0", "scale.1", "shift.0", "shift.1"}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"mix": 1.2}, "mix of method l2d is a share from 0 to 1, not 1.2"),
        ({"kernels": []}, r"kernels of method l2d must be whole numbers from 1, not \(\)"),
        ({"kernels": [3, 0]}, r"kernels of method l2d must be whole numbers from 1, not \(3, 0\)"),
        ({"dropout": 1.0}, r"dropout of method l2d is a probability below 1, not 1\.0"),
        ({"temperature": 0.0}, r"temperature of method l2d must be more than 0, not 0\.0"),
        ({"rate": -0.1}, r"rate of method l2d must be 0 or more, not -0\.1"),
        ({"dependence": -1.0}, r"dependence of method l2d must be 0 or more, not -1\.0"),
    ],
)
def test_bad_settings_are_one_line(options, complaint):
    with pytest.raises(UserError, match=complaint):
        find_method("l2d").check(options)


def test_kernels_must_fit_into_the_images():
    with pytest.raises(UserError, match=r"must be smaller than the images of 32x32, not \(3, 32\)"):
        small.trainer("l2d", method__options__kernels=[3, 32])
