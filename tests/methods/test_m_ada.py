"""M-ADA against its formulas: the second-order step, the relaxation, and which images a phase takes."""

from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch.func import functional_call

from tests.methods import small
from tests.methods.test_ascent import begun
from xcnorm.errors import UserError
from xcnorm.methods.m_ada import MADA

SMALL = {"phases": 2, "gap": 4, "batch": 16, "ascent_steps": 3, "step_size": 100.0, "autoencoder_epochs": 3}
RATE = 0.3


def ready(layer="conv", **options):
    """The method, and a batch of each kind; dropout is off, so that a loss is a function of the weights."""
    method, images, labels = begun("m_ada", layer, batch=8, **options)
    model = method.training.network
    model.trunk[2].p = 0.0
    others = images.flip(0)[:8] + 0.3
    rate = torch.tensor(RATE, dtype=torch.float64)
    return method, model, (images[:8], labels[:8], others, labels.flip(0)[:8], rate)


def value(model, weights, images, labels, others, other_labels, rate, *, through=True):
    """The loss as published, written down plainly; with or without gradients through the inner step."""

    def loss(weights, inputs, wanted):
        return F.cross_entropy(functional_call(model, weights, (inputs,)), wanted)

    own = loss(weights, images, labels)
    slopes = torch.autograd.grad(own, list(weights.values()), create_graph=through, retain_graph=True)
    stepped = {name: weights[name] - rate * slope for name, slope in zip(weights, slopes, strict=True)}
    return (own + loss(stepped, others, other_labels)) / 2


@pytest.mark.parametrize("layer", ["conv", "xcnorm", "r_xcnorm"])
def test_the_gradient_goes_through_the_inner_step_by_finite_differences(layer):
    method, model, drawn = ready(layer)
    method.loss(model, *drawn).backward()
    weights = {name: weight.detach().requires_grad_() for name, weight in model.named_parameters()}
    first_order = torch.autograd.grad(value(model, weights, *drawn, through=False), list(weights.values()))
    generator = torch.Generator().manual_seed(0)
    # Small steps: where an activation has a kink, its gradient jumps, and with it what comes after the inner step.
    for _ in range(3):
        ways = {name: torch.randn(w.shape, dtype=w.dtype, generator=generator) for name, w in weights.items()}
        ends = []
        for sign in (1, -1):
            there = {name: (w + sign * 1e-8 * ways[name]).detach().requires_grad_() for name, w in weights.items()}
            ends.append(value(model, there, *drawn).item())
        rise = (ends[0] - ends[1]) / 2e-8
        found = sum((weight.grad * ways[name]).sum() for name, weight in model.named_parameters()).item()
        short = sum((slope * way).sum() for slope, way in zip(first_order, ways.values(), strict=True)).item()
        assert found == pytest.approx(rise, rel=1e-5)
        assert abs(short - rise) > 1e-2 * abs(rise)


def test_the_loss_is_the_mean_of_both():
    method, model, (images, labels, others, other_labels, rate) = ready()
    found = method.loss(model, images, labels, others, other_labels, rate)
    own = F.cross_entropy(model(images), labels)
    own.backward()
    with torch.no_grad():
        for weight in model.parameters():
            weight -= RATE * weight.grad
    further = F.cross_entropy(model(others), other_labels)
    assert found.item() == pytest.approx((own + further).item() / 2, rel=1e-12)
    assert abs(own - further) > 0.01


def test_statistics_follow_both_batches():
    """The second is seen by the weights after the inner step."""
    method, model, (images, labels, others, other_labels, rate) = ready()
    convolution, norm = model.trunk[0][0], model.trunk[0][1]
    other = deepcopy(model)
    (slope,) = torch.autograd.grad(F.cross_entropy(other(images), labels), other.trunk[0][0].weight)
    expected = norm.running_mean.clone()
    for inputs, weight in ((images, convolution.weight), (others, convolution.weight - rate * slope)):
        expected = expected.lerp(F.conv2d(inputs, weight).mean((0, 2, 3)), norm.momentum)
    method.loss(model, images, labels, others, other_labels, rate)
    torch.testing.assert_close(norm.running_mean, expected.detach())
    assert norm.num_batches_tracked == 3 + 2


def test_it_is_erm_until_there_is_another_domain():
    erm, other = small.losses(small.trainer("erm"), 5), small.losses(small.trainer("m_ada"), 5)
    assert other[:3] == erm[:3]
    assert other[3] != erm[3]


def test_images_gain_by_leaving_their_reconstruction():
    """One step from a place that is not the original, against finite differences of the mean over a batch."""
    method, images, _ = begun("m_ada", batch=8, beta=50.0)
    autoencoder = method._autoencoder.double()
    images = images[:8]
    inputs = (images + 0.1 * torch.randn(images.shape, generator=torch.Generator().manual_seed(1))).requires_grad_()
    bonus = method.bonus(inputs, images, torch.empty(0))
    (slope,) = torch.autograd.grad(bonus, inputs)

    def distance(moved):
        with torch.no_grad():
            return 50.0 * (autoencoder(moved) - autoencoder(images)).square().flatten(1).mean(1).sum()

    assert bonus.item() == pytest.approx(distance(inputs).item(), rel=1e-12)
    way = torch.randn(images.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    rise = (distance(inputs + 1e-5 * way) - distance(inputs - 1e-5 * way)) / 2e-5
    assert (slope * way).sum().item() == pytest.approx(rise.item(), rel=1e-6)


@pytest.mark.parametrize(
    ("phase", "own", "added"), [(0, 311 * 32, 0), (1, 155 * 16, 155 * 16), (2, 103 * 10, 103 * 22)]
)
def test_phases_take_the_published_shares(phase, own, added):
    class Sizes:
        source_size = 10_000

        def __len__(self):
            return 10_000 + (0, 9952, 9952 + 4960)[phase]

    method, _, _ = begun("m_ada", phases=0)
    method.training.images, method._phase = Sizes(), phase
    chosen = method.choose(torch.Generator().manual_seed(0))
    assert len(chosen.unique()) == len(chosen)
    assert ((chosen < 10_000).sum(), (chosen >= 10_000).sum()) == (own, added)
    assert chosen.max() < len(method.training.images)


def test_the_auto_encoder_learns_the_source_and_then_the_newest_domain_each_time_anew(monkeypatch):
    trainer = small.trainer("m_ada")
    method, seen, resets = trainer.objective.method, [], []
    take, reset = trainer.images.take, method._autoencoder.reset
    monkeypatch.setattr(trainer.images, "take", lambda index, *rest: (seen.append(index), take(index, *rest))[1])
    monkeypatch.setattr(method._autoencoder, "reset", lambda generator: (resets.append(1), reset(generator)))
    domains = []
    while trainer.step < 12:
        before = method._epochs
        trainer.advance()
        if method._epochs > before:  # an epoch is one piece here
            domains.append((int(seen[-1].min()), int(seen[-1].max()), len(seen[-1])))
    assert domains == [(0, 95, 96)] * 3 + [(96, 175, 80)] * 3
    assert len(resets) == 2


def test_the_second_batch_is_of_added_images_alone_and_augmented_like_the_first():
    trainer = small.trainer("m_ada", data__augment=["crop"])
    small.losses(trainer, 4)
    images, labels = trainer.images.take(torch.arange(16))
    state = trainer.generators["method"].get_state()
    drawn = trainer.objective.draw(images, labels, trainer.generators["method"])
    assert torch.equal(drawn[0], images)
    assert drawn[4].item() == pytest.approx(trainer.training.rate)
    index = 96 + torch.randint(80, (16,), generator=torch.Generator().set_state(state))
    plain, expected = trainer.images.take(index)
    assert torch.equal(drawn[3], expected)
    assert not torch.equal(drawn[2], plain)
    assert drawn[2].shape == plain.shape


def test_what_it_cannot_do_is_refused():
    with pytest.raises(UserError, match="3 phases of method m_ada need 48 images, which the training images, or its p"):
        begun("m_ada", batch=12)
    method, model, drawn = ready()
    with pytest.raises(UserError, match=r"second derivatives, which torch\.compile has not; set run\.compile=false"):
        method.loss(torch.compile(model, backend="eager"), *drawn[:2])
    assert "second-order" in MADA.distributed
