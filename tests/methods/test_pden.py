"""PDEN against its formulas: generators out of torch's modules, both stages of a step, and when domains begin."""

from copy import deepcopy
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.methods import small
from tests.methods.test_divergences import cosine
from xcnorm.errors import UserError
from xcnorm.methods import find_method
from xcnorm.methods.contrasts import image_contrast
from xcnorm.methods.generator import Generator

SMALL = {"domains": 3, "warmup": 2, "gap": 4, "rate": 0.01}


class ByModules(nn.Module):
    """A generator out of torch's modules, filled with the numbers of a vector."""

    def __init__(self, numbers):
        super().__init__()
        widths = [3, 16, 32, 64, 3]
        self.layers = nn.ModuleList(nn.Conv2d(before, after, 3, padding=1) for before, after in pairwise(widths))
        self.style = nn.Linear(10, 64)
        for parameter in self.parameters():
            parameter.data = numbers[: parameter.numel()].view(parameter.shape).clone()
            numbers = numbers[parameter.numel() :]
        assert not len(numbers)

    def forward(self, images, noise=None):
        inner = F.relu(self.layers[1](F.relu(self.layers[0](images))))
        if noise is not None:
            scale, shift = self.style(noise).view(len(noise), 2, 32, 1, 1).unbind(1)
            inner = (1 + scale) * nn.InstanceNorm2d(32)(inner) + shift
        return torch.sigmoid(self.layers[3](F.relu(self.layers[2](inner))))


def flat(module):
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_generator_is_torchs_modules():
    made, images = Generator(3), torch.rand(4, 3, 12, 10, dtype=torch.float64, generator=generator(1))
    weights, noise = made.draw(generator()).double(), torch.randn(4, 10, dtype=torch.float64, generator=generator(2))
    reference = ByModules(weights)
    torch.testing.assert_close(made(weights, images, noise), reference(images, noise), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(made(weights, images), reference(images), rtol=1e-10, atol=1e-10)
    assert made.size == 26019


def test_a_generator_starts_as_torch_does():
    drawn = ByModules(torch.stack([Generator(3).draw(generator(seed)) for seed in range(9)]).abs().amax(0))
    for module in [*drawn.layers, drawn.style]:
        bound = module.weight[0].numel() ** -0.5
        assert type(module)(*((3, 3, 3) if isinstance(module, nn.Conv2d) else (10, 3))).weight.abs().max() > 0
        for parameter in module.parameters():
            assert 0.8 * bound < parameter.max() <= bound


def ready(step, **options):
    """A training in float64 in front of a step, its method, and what the step is given."""
    trainer = small.trainer("pden", **{f"method__options__{name}": value for name, value in options.items()})
    small.losses(trainer, step)
    method = trainer.objective.method
    trainer.training.step = step
    while method.pending():
        method.work(trainer.generators["method"])
    drawn = trainer.objective.draw(*next(trainer.batches), trainer.generators["method"])
    trainer.model.double(), method.companion().double()
    for name in ("_known", "_newest", "_back", "_black", "_range"):
        setattr(method, name, getattr(method, name).double())
    method._adam = type(method._adam)([method._newest, method._back], method.rate)
    return trainer, method, [each.double() if each.is_floating_point() else each for each in drawn]


def through(weights, images, noise):
    """What the network sees in another look; inputs are from -1 to 1 here."""
    return 2 * ByModules(weights)((images + 1) / 2, noise) - 1


def vectors_of(trainer, images):
    return trainer.objective.method.companion()(trainer.model.features(images))


@pytest.mark.parametrize("step", [2, 6, 9])
def test_the_loss_of_the_network(step):
    """In the first domain, in the second, and when its generator no longer learns."""
    trainer, method, drawn = ready(step)
    images, labels, noise, *further = drawn
    assert len(further) == {2: 2, 6: 5, 9: 3}[step]
    views = [images]
    if step > 2:
        weights, other, shares = further[:3]
        made = through(weights, images, other)
        views += [made, shares * images + (1 - shares) * made]
    views.append(through(method._newest, images, noise))
    state = small.weights(trainer)
    embedding = trainer.model.features(torch.cat(views).detach())
    logs = trainer.model.classifier(embedding).log_softmax(1).chunk(len(views))
    expected = sum(-each[range(16), labels].mean() for each in logs)
    expected = expected + image_contrast(method.companion()(embedding).chunk(len(views)), 0.07)
    trainer.model.load_state_dict(state)
    assert method.loss(trainer.model, *drawn).item() == pytest.approx(expected.item(), rel=1e-9)


@pytest.mark.parametrize(("step", "view"), [(2, 0), (6, 0), (6, 1), (6, 2)])
def test_the_step_of_the_generator(step, view):
    """Against torch's Adam on the published loss; the network is as in a test and does not change."""
    trainer, method, drawn = ready(step)
    drawn[-1] = torch.tensor([view])
    images, labels, noise, *further = drawn
    again = further[-2]
    forth, back = ByModules(method._newest), ByModules(method._back)
    optimiser = torch.optim.Adam([*forth.parameters(), *back.parameters()], method.rate)
    state = small.weights(trainer)
    trainer.model.eval()
    values = (images + 1) / 2
    made, other = forth(values, noise), forth(values, again)
    logs = trainer.model(2 * made - 1).log_softmax(1)
    seen = images
    if view:
        old = through(further[0], images, further[1])
        seen = old if view == 1 else further[2] * images + (1 - further[2]) * old
    found = [*vectors_of(trainer, 2 * made - 1), *vectors_of(trainer, seen).detach()]
    confusion = 0.0
    for i, one in enumerate(found):
        weights = [
            0.0 if i == j else torch.exp(F.cosine_similarity(one, each, dim=0) / 0.07) for j, each in enumerate(found)
        ]
        confusion = confusion - torch.log(1 - weights[(i + 16) % 32] / sum(weights)) / 32
    spread = torch.stack([difference.abs().mean().clamp(max=0.5) for difference in made - other]).mean()
    cycle = (back(made) - values).square().mean()
    loss = -logs[range(16), labels].mean() + 0.1 * confusion - 2 * spread + 20 * cycle
    loss.backward()
    optimiser.step()
    trainer.model.train()
    method.after(trainer.model, *drawn)
    # Adam's first step is a sign: where a gradient is nearly nothing, so is what can be compared.
    for own, module in ((method._newest, forth), (method._back, back)):
        assert ((own - flat(module)).abs() > 1e-6).double().mean() < 1e-3
    torch.testing.assert_close(small.weights(trainer), state, rtol=0, atol=0)


def test_more_spread_than_enough_is_worth_nothing():
    trainer, method, drawn = ready(2, diversity=1e6, widest=0.0)
    before = method._newest.clone()
    method.after(trainer.model, *drawn)
    other, second, _ = ready(2, diversity=0.0)
    second.after(other.model, *drawn)
    assert torch.equal(before != method._newest, before != second._newest)
    torch.testing.assert_close(method._newest, second._newest)


def test_domains_begin_one_after_the_other_and_stay():
    trainer = small.trainer("pden")
    method, begun, moved, known = trainer.objective.method, {}, {}, {}
    while trainer.step < 16:
        before = method._newest.clone()
        if trainer.advance() is not None:
            begun[trainer.step], known[trainer.step] = method._begun, method._known.clone()
            moved[trainer.step] = not torch.equal(before, method._newest)
    assert [begun[step] for step in (1, 2, 3, 6, 7, 10, 11, 14, 16)] == [0, 0, 1, 1, 2, 2, 3, 3, 3]
    assert [step for step in moved if moved[step]] == [3, 4, 7, 8, 11, 12]  # half of four steps
    assert not known[6].any()
    assert torch.equal(known[7][0], known[16][0])
    assert known[16][1].any()
    assert not known[16][2].any()


def test_an_earlier_domain_is_chosen_by_chance():
    trainer = small.trainer("pden")
    small.losses(trainer, 12)
    method, chosen = trainer.objective.method, set()
    images, labels = next(trainer.batches)
    for _ in range(20):
        drawn = trainer.objective.draw(images, labels, trainer.generators["method"])
        chosen |= {place for place in range(3) if torch.equal(drawn[3], method._known[place])}
    assert chosen == {0, 1}


def test_views_are_asked_about_in_their_projection():
    trainer = small.trainer("pden")
    assert trainer.objective.method.companion().out_features == 128
    vectors = vectors_of(trainer, trainer.images.take(torch.arange(2))[0])
    assert -1 <= cosine(*vectors.detach()) <= 1


def test_going_on_does_not_touch_the_state_that_it_goes_on_from():
    whole, resumed = small.trainer("pden"), small.trainer("pden")
    small.losses(whole, 8)
    state = deepcopy(whole.state_dict())
    resumed.load_state_dict(8, state)
    small.losses(resumed, 3)
    torch.testing.assert_close(state["method"]["newest"], whole.objective.method._newest, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("domains", -1, "domains of method pden must be 0 or more, not -1"),
        ("gap", 0, "gap of method pden must be 1 or more, not 0"),
        ("frozen", 1.5, "frozen of method pden is a share from 0 to 1, not 1.5"),
        ("temperature", 0.0, "temperature of method pden must be above 0, not 0.0"),
        ("cycle", -1.0, "cycle of method pden must be 0 or more, not -1.0"),
    ],
)
def test_bad_settings_are_one_line(option, value, words):
    with pytest.raises(UserError) as caught:
        find_method("pden").check({option: value})
    assert str(caught.value) == words


def test_domains_that_do_not_fit_are_refused():
    with pytest.raises(UserError, match="10 domains of method pden, 4 steps each after 2 of ERM, do not fit into 40 "):
        small.trainer("pden", method__options__domains=10)
