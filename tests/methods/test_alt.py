"""ALT against its formulas: the adversary's steps, written with torch's own modules, and the loss."""

import math
from copy import deepcopy
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.methods import small
from xcnorm.errors import UserError
from xcnorm.methods import find_method
from xcnorm.methods.alt import total_variation
from xcnorm.methods.randconv import RandConv

SMALL = {"warmup": 0.05, "rate": 0.01, "ascent_steps": 3, "width": 4}


def exact(**options):
    """A training in float64 behind its warm-up, and what its next step is given."""
    trainer = small.trainer("alt", **{f"method__options__{name}": value for name, value in options.items()})
    method = trainer.objective.method
    trainer.model.double()
    trainer.training.step = 2
    drawn = trainer.objective.draw(*next(trainer.batches), trainer.generators["method"])
    for name in ("_weights", "_biases"):
        setattr(method, name, [each.double() for each in getattr(method, name)])
    method._ascent = type(method._ascent)([*method._weights, *method._biases], method.rate)
    method._least, method._most = method._least.double(), method._most.double()
    return trainer, method, [each.double() if each.is_floating_point() else each for each in drawn]


def network(numbers, width=4, depth=4):
    """The adversary out of torch's modules, filled with the numbers of a draw."""
    sizes = [3, *[width] * depth, 3]
    layers = [nn.Conv2d(before, after, 3, padding=1) for before, after in pairwise(sizes)]
    for parameter in [*(layer.weight for layer in layers), *(layer.bias for layer in layers)]:
        parameter.data = numbers[: parameter.numel()].view(parameter.shape).clone()
        numbers = numbers[parameter.numel() :]
    assert not len(numbers)
    inner = [module for layer in layers for module in (layer, nn.LeakyReLU(0.2))]
    return nn.Sequential(*inner[:-1])


def by_hand(trainer, adversary, images, labels, *, least, steps=3, rate=0.01, optimiser=None):
    """Gradient steps against the network as in a test."""
    optimiser = optimiser or torch.optim.Adam(adversary.parameters(), rate)
    trainer.model.eval()
    for _ in range(steps):
        made = adversary(images).clamp(least, 1)
        rows, columns = (made[:, :, 1:] - made[:, :, :-1]).pow(2), (made[..., 1:] - made[..., :-1]).pow(2)
        variation = 2 * (rows.sum() / rows[0].numel() + columns.sum() / columns[0].numel()) / len(made)
        optimiser.zero_grad()
        (variation - F.cross_entropy(trainer.model(made), labels)).backward()
        optimiser.step()
    trainer.model.train()
    return adversary(images).clamp(least, 1).detach()


@pytest.mark.parametrize("layer", ["conv", "r_xcnorm"])
def test_the_adversary_climbs_as_torchs_modules_do(layer):
    trainer, method, (images, labels, numbers, _) = exact()
    expected = by_hand(trainer, network(numbers), images, labels, least=-1)
    assert (expected - network(numbers)(images).clamp(-1, 1)).abs().max() > 0.01
    for _ in range(2):  # nothing is left of a batch
        found = method.changed(trainer.model, images, labels, numbers)
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)
    assert trainer.model.training


def test_the_published_program_keeps_biases_and_memory():
    trainer, method, (images, labels, numbers, _) = exact(adversary="released")
    numbers = torch.cat([numbers[: -sum(method._sizes)], torch.cat(method._biases)])
    adversary = network(numbers)
    optimiser = torch.optim.Adam(adversary.parameters(), 0.01)
    for _ in range(2):
        fresh = network(numbers)
        for layer, new in zip(adversary, fresh, strict=True):
            if isinstance(layer, nn.Conv2d):
                layer.weight.data = new.weight.data
        expected = by_hand(trainer, adversary, images, labels, least=1e-4, optimiser=optimiser)
        found = method.changed(trainer.model, images, labels, numbers)
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("diversity", ["randconv", "none"])
def test_the_loss(diversity):
    trainer, method, drawn = exact(diversity=diversity)
    images, labels, numbers, *views = drawn
    before = small.weights(trainer)
    assert len(views) == (diversity == "randconv")
    views.append(method.changed(trainer.model, images, labels, numbers))
    answers = [trainer.model(each).softmax(1) for each in (images, *views)]
    mean = sum(answers) / len(answers)
    divergence = sum((answer * (answer / mean).log()).sum(1).mean() for answer in answers) / len(answers)
    expected = 0.25 * -answers[0][range(16), labels].log().mean() + 0.75 * divergence
    trainer.model.load_state_dict(before)  # statistics of batches have moved
    found = method.loss(trainer.model, *drawn)
    assert found.item() == pytest.approx(expected.item(), rel=1e-8)
    found.backward()  # what the adversary has done is no part of it
    assert all(parameter.grad is not None for parameter in trainer.model.parameters())


def test_the_third_view_is_randconvs_mix(monkeypatch):
    seen = []
    monkeypatch.setattr(RandConv, "view", lambda self, images, *drawn: seen.append(self) or images + 1)
    _, _, (images, _, _, view) = exact()
    torch.testing.assert_close(view, images + 1)
    assert (seen[0].mix, seen[0].kernels, seen[0].identity) == (True, (1, 3, 5, 7), 0.0)


def test_kernels_and_biases_are_drawn_as_torch_initialises_them():
    trainer = small.trainer("alt", method__options__width=18)
    trainer.training.step = 2
    images, labels = next(trainer.batches)
    drawn = torch.stack([trainer.objective.draw(images, labels, trainer.generators["method"])[2] for _ in range(60)])
    place = 0
    shapes = [(18, 3), *[(18, 18)] * 3, (3, 18)]
    for after, before in shapes:
        values = drawn[:, place : (place := place + after * before * 9)]
        assert values.std().item() == pytest.approx(math.sqrt(2 / (9 * before)), rel=0.03)
    for after, before in shapes:
        values = drawn[:, place : (place := place + after)]
        bound = 1 / math.sqrt(9 * before)
        assert 0.95 * bound < values.abs().max() <= bound
    assert place == drawn.shape[1]


def test_at_the_published_rate_the_adversary_hardly_moves():
    """Ten steps of Adam are at most ten rates, and weights are some thousand times as large."""
    trainer, method, (images, labels, numbers, _) = exact(rate=5e-6, ascent_steps=10)
    found = method.changed(trainer.model, images, labels, numbers)
    start = network(numbers)(images).clamp(-1, 1)
    assert 0 < (found - start).abs().max() < 0.01
    assert (start - images).abs().mean() > 0.1


def test_total_variation_is_of_neighbours():
    images = torch.zeros(2, 1, 3, 4, dtype=torch.float64)
    images[0, 0, 1, 2] = 3.0
    assert total_variation(images).item() == pytest.approx(2 * (2 * 9 / 16 + 2 * 9 / 18))


def test_it_is_erm_until_the_warm_up_is_over():
    """A twentieth of 40 steps."""
    erm, other = small.losses(small.trainer("erm"), 4), small.losses(small.trainer("alt"), 4)
    assert other[:2] == erm[:2]
    assert other[2] != erm[2]


def test_what_the_published_program_keeps_is_in_a_checkpoint():
    options = {"method__options__adversary": "released"}
    whole, resumed = small.trainer("alt", **options), small.trainer("alt", **options)
    small.losses(whole, 5)
    resumed.load_state_dict(5, deepcopy(whole.state_dict()))
    assert small.losses(resumed, 4) == small.losses(whole, 4)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("consistency", 1.5, "consistency of method alt is a share from 0 to 1, not 1.5"),
        ("warmup", -0.1, "warmup of method alt is a share from 0 to 1, not -0.1"),
        ("width", 0, "width of method alt must be 1 or more, not 0"),
        ("ascent_steps", -1, "ascent_steps of method alt must be 0 or more, not -1"),
        ("adversary", "mine", "adversary of method alt must be 'paper' or 'released', not 'mine'"),
        ("diversity", "randcon", "unknown augmentation 'randcon'; did you mean 'randconv'?"),
    ],
)
def test_bad_settings_are_one_line(option, value, words):
    with pytest.raises(UserError) as caught:
        find_method("alt").check({option: value})
    assert words in str(caught.value)
