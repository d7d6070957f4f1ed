"""AdvST against its formulas: the ascent of a chain's numbers, the pool, and the loss."""

import math

import pytest
import torch
import torch.nn.functional as F

from tests.methods import small
from tests.methods.test_ascent import begun
from xcnorm.errors import UserError
from xcnorm.methods import find_method
from xcnorm.methods.contrasts import class_contrast
from xcnorm.methods.semantics import transformations

SMALL = {"pool": 2, "batch": 32, "ascent_steps": 3, "entropy": 1.0}
CHAIN = ("hsv", "rotate", "cut_out")


def by_hand(method, images, labels, chain, numbers, steps):
    """The published loop, with torch's own RMSprop, on values from 0 to 1, which `begun` lets the network see."""
    known, model = transformations(method.hole), method.training.network.eval()
    parameters, rest = [], numbers
    for name in chain:
        count = len(known[name].ranges)
        parameters.append(rest[:, :count].clone().requires_grad_())
        rest = rest[:, count:]
    optimiser = torch.optim.RMSprop(parameters, method.rate)

    def through():
        values = images
        for name, own in zip(chain, parameters, strict=True):
            values = known[name].apply(values, own)
        return values

    original, gains, before = model.features(images).detach(), [], 0.0
    for _ in range(steps):
        embedding = model.features(through())
        logs = model.classifier(embedding).log_softmax(1)
        gain = -logs[range(len(labels)), labels].mean() - method.gamma * ((embedding - original) ** 2).mean()
        gain = gain - method.eta * (logs.exp() * logs).sum(1).mean()
        optimiser.zero_grad()
        (-gain).backward()
        optimiser.step()
        gains.append(gain.item())
        if abs(gains[-1] - before) <= method.tolerance:
            break
        before = gains[-1]
    model.train()
    return through().detach(), gains


def start(method, chain, count=8):
    return method.draw_numbers(chain, count, torch.Generator().manual_seed(4)).double()


@pytest.mark.parametrize(("eta", "layer"), [(0.0, "conv"), (3.0, "r_xcnorm")])
def test_numbers_climb_as_in_the_published_loop(eta, layer):
    method, images, labels = begun("advst", layer, gamma=2.0, eta=eta, tolerance=0.0, ascent_steps=6)
    numbers = start(method, CHAIN)
    found = method.ascend(images[:8], labels[:8], CHAIN, numbers)
    expected, gains = by_hand(method, images[:8], labels[:8], CHAIN, numbers, 6)
    assert len(gains) == 6
    assert (expected - method.transformed(images[:8], CHAIN, numbers)).abs().max() > 0.1
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    assert method.training.network.training


@pytest.mark.parametrize("tolerance", [0.001, 0.02, 10.0])
def test_the_ascent_ends_when_little_changes(tolerance):
    method, images, labels = begun("advst", gamma=2.0, tolerance=tolerance, ascent_steps=20)
    numbers = start(method, CHAIN)
    expected, gains = by_hand(method, images[:8], labels[:8], CHAIN, numbers, 20)
    assert len(gains) < 20
    found = method.ascend(images[:8], labels[:8], CHAIN, numbers)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_a_chain_without_anything_to_learn_is_applied_as_it_is():
    method, images, labels = begun("advst")
    chain = ("posterise", "equalise")
    numbers = start(method, chain)
    found = method.ascend(images[:8], labels[:8], chain, numbers)
    assert torch.equal(found, method.transformed(images[:8], chain, numbers))


def test_numbers_start_evenly_in_their_ranges():
    method, _, _ = begun("advst")
    drawn = start(method, ("rotate", "scale", "translate"), 4000)
    for column, (low, high) in zip(drawn.T, ((0.01, 1), (0.5, 2), (-1, 1), (-1, 1)), strict=True):
        assert low <= column.min() < low + 0.01 * (high - low)
        assert high - 0.01 * (high - low) < column.max() <= high
        assert column.mean().item() == pytest.approx((low + high) / 2, abs=0.03 * (high - low))


def test_what_the_network_sees_is_transformed_in_the_range_of_an_image():
    """Whatever mean and deviation images are prepared with."""
    trainer = small.trainer("advst", data__mean=[0.1, 0.2, 0.3], data__std=[0.5, 0.6, 0.7])
    method, (images, _) = trainer.objective.method, trainer.images.take(torch.arange(8))
    numbers = start(method, ("invert",)).float()
    expected = trainer.images.prepare(numbers[:, :, None, None] - trainer.images.prepare.undo(images))
    torch.testing.assert_close(method.transformed(images, ("invert",), numbers), expected, rtol=1e-5, atol=1e-5)


def test_a_set_is_made_after_every_pass_and_the_pool_keeps_the_newest():
    """96 images in batches of 16: passes of 6, then 12, then 18 steps."""
    trainer = small.trainer("advst")
    sizes, newest = {}, {}
    while trainer.step < 40:
        if trainer.advance() is not None:
            sizes[trainer.step] = len(trainer.images)
            newest[trainer.step] = trainer.images.take(torch.tensor([96]))[0] if len(trainer.images) > 96 else None
    assert [sizes[step] for step in (6, 7, 18, 19, 36, 37, 40)] == [96, 192, 192, 288, 288, 288, 288]
    assert torch.equal(newest[7], newest[36])
    assert not torch.equal(newest[36], newest[37])  # the first made set is gone, the second is the oldest now


def test_sets_are_made_of_the_source_with_its_labels():
    """Each of its images once; so a set has as many of each class."""
    trainer = small.trainer("advst")
    small.losses(trainer, 7)
    _, labels = trainer.images.take(torch.arange(192))
    assert torch.equal(labels[:96].bincount(), labels[96:].bincount())


def test_sets_may_be_smaller_and_come_more_often():
    trainer = small.trainer("advst", method__options__size=40, method__options__gap=2)
    sizes = {}
    while trainer.step < 10:
        if trainer.advance() is not None:
            sizes[trainer.step] = len(trainer.images) - 96
    assert [sizes[step] for step in range(1, 11)] == [0, 0, 40, 40, 80, 80, 80, 80, 80, 80]
    _, labels = trainer.images.take(torch.arange(96 + 80))
    assert len(labels) == 96 + 80


def test_without_the_source_a_full_pool_is_all_that_is_learned():
    """As in the published program, whose pool has a place more then."""
    trainer = small.trainer("advst", method__options__pool=1, method__options__keep_source=False)
    made = {}
    while trainer.step < 20:
        if trainer.advance() is not None:
            drawn = trainer.objective.draw(*trainer.images.take(torch.arange(96)), torch.Generator().manual_seed(0))
            made[trainer.step] = not torch.equal(drawn[0], trainer.images.take(torch.arange(96))[0])
    assert [made[step] for step in (6, 7, 18, 19)] == [False, False, False, True]
    assert len(trainer.images) == 3 * 96


def test_the_loss():
    trainer = small.trainer("advst")
    trainer.model.double(), trainer.objective.method.companion().double()
    images, labels = trainer.images.take(torch.arange(16))
    embedding = trainer.model.features(images.double())
    logs = trainer.model.classifier(embedding).log_softmax(1)
    layer = trainer.objective.method.companion()
    expected = -logs[range(16), labels].mean() + class_contrast(layer(embedding), labels, 0.07)
    expected = expected + (logs.exp() * logs).sum(1).mean()
    found = trainer.objective.method.loss(trainer.model, images.double(), labels)
    assert found.item() == pytest.approx(expected.item(), rel=1e-12)
    assert layer.out_features == 128


def test_where_entropy_and_cross_entropy_balance():
    """With ten classes and the weight 10 the network is content to give the right one a sixth."""
    probability = torch.linspace(0.1, 0.9, 8001, dtype=torch.float64)
    rest = (1 - probability) / 9
    loss = -probability.log() + 10 * (probability * probability.log() + 9 * rest * rest.log())
    best = probability[loss.argmin()].item()
    assert 0.15 < best < 0.2
    assert math.log(best / ((1 - best) / 9)) == pytest.approx(0.6, abs=0.1)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("longest", 0, "longest of method advst must be from 1 to 4, not 0"),
        ("ascent_steps", 0, "ascent_steps of method advst must be 1 or more, not 0"),
        ("batch", 0, "batch of method advst must be 1 or more, not 0"),
        ("pool", -1, "pool of method advst must be 0 or more, not -1"),
        ("entropy", -1.0, "entropy of method advst must be 0 or more, not -1.0"),
        ("rate", 0.0, "rate of method advst must be above 0, not 0.0"),
        ("temperature", -1.0, "temperature of method advst must be above 0, not -1.0"),
        ("hole", 0.0, "hole of method advst must be above 0 and at most 1, not 0.0"),
    ],
)
def test_bad_settings_are_one_line(option, value, words):
    with pytest.raises(UserError) as caught:
        find_method("advst").check({option: value})
    assert str(caught.value) == words


def test_embeddings_hold_the_numbers_back():
    """With the published weight of the distance, the loss climbs less than without it."""
    losses = {}
    for gamma in (0.0, 100.0):
        method, images, labels = begun("advst", gamma=gamma, tolerance=0.0, ascent_steps=10, rate=0.05)
        chain = ("contrast", "rotate")
        made = method.ascend(images, labels, chain, start(method, chain, 32))
        losses[gamma] = F.cross_entropy(method.training.network.eval()(made), labels).item()
    assert losses[0.0] > losses[100.0]
