"""What CCSA and d-SNE share: two streams of the source, and the cross-entropy of both."""

import pytest
import torch
import torch.nn.functional as F

from tests.engine import small as engine
from tests.methods import small
from xcnorm.engine import Trainer, World
from xcnorm.errors import UserError
from xcnorm.methods import find_method

METHODS = ["ccsa", "dsne"]


@pytest.fixture(params=METHODS)
def name(request):
    return request.param


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def streams(name, **settings):
    """A method that has begun, its network in double precision, and two streams of eight images."""
    trainer = small.trainer(name)
    method = find_method(name)(**settings)
    method.begin(trainer.training)
    images, labels = trainer.images.take(torch.arange(8))
    images, labels, others, other_labels, *random = method.draw(images, labels, generator())
    return method, trainer.model.double(), (images.double(), labels, others.double(), other_labels, *random)


@pytest.mark.parametrize("normalise", [False, True])
def test_the_loss_is_the_cross_entropy_of_both_streams_and_their_comparison(name, normalise):
    method, model, drawn = streams(name, weight=0.3, margin=0.8, normalise=normalise)
    images, labels, others, other_labels, *random = drawn
    labels[:4], other_labels[:3] = 1, 1  # so that there are pairs of one class
    embedding = model.features(torch.cat([images, others]))
    classes = torch.cat([labels, other_labels])
    if normalise:
        lengths = [sum(value**2 for value in row) ** 0.5 for row in embedding.tolist()]
        compared = embedding / torch.tensor(lengths, dtype=torch.float64)[:, None]
    else:
        compared = embedding
    squares = torch.tensor(
        [
            [sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) for y in compared[8:].tolist()]
            for x in compared[:8].tolist()
        ],
        dtype=torch.float64,
    )
    same = torch.tensor([[bool(a == b) for b in other_labels] for a in labels])
    expected = 0.7 * F.cross_entropy(model.classifier(embedding), classes) + 0.3 * method.comparison(
        squares, same, *random
    )
    torch.testing.assert_close(method.loss(model, *drawn), expected, rtol=1e-10, atol=0)


def test_the_second_stream_is_drawn_evenly_from_the_source_and_does_not_depend_on_the_first(name):
    method, _, _ = streams(name)
    pool = method.training.images
    images, labels = pool.take(torch.arange(16))
    source = generator()
    shares = torch.cat([method.draw(images, labels, source)[3] for _ in range(300)]).bincount(minlength=10) / (300 * 16)
    expected = pool.take(torch.arange(len(pool)))[1].bincount(minlength=10) / len(pool)
    assert (shares - expected).abs().max() < 5 * (0.1 * 0.9 / (300 * 16)) ** 0.5
    assert torch.equal(method.draw(images, labels, generator(7))[2], method.draw(-images, labels, generator(7))[2])


def test_the_second_stream_is_augmented_as_the_first_is(name):
    plain, shifted = (small.trainer(name, data__augment=augment) for augment in ([], ["crop"]))
    assert not plain.training.changes
    one, other = (
        trainer.objective.draw(*trainer.images.take(torch.arange(16)), generator())[2] for trainer in (plain, shifted)
    )
    assert not torch.equal(one, other)
    assert one.shape == other.shape


def test_there_is_one_stream_at_no_weight(name):
    trainer = small.trainer(name, neutral=True)
    images, labels = trainer.images.take(torch.arange(16))
    assert trainer.objective.draw(images, labels, generator()) == (images, labels)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_gradients_are_finite_where_embeddings_are_equal(name, dtype):
    """Also in half precision, where neighbours would be told apart no more."""
    for normalise in (False, True):
        method, model, (images, labels, _, other_labels, *random) = streams(name, normalise=normalise)
        model.float().zero_grad()
        images = images[:1].expand_as(images).float()
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            loss = method.loss(model, images, labels, images, other_labels, *random)
        loss.backward()
        assert loss.isfinite()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_several_processes_are_refused(name):
    experiment = engine.experiment(method__name=name)
    with pytest.raises(UserError, match=f"method {name} cannot run in several processes: it compares every image"):
        Trainer(experiment, engine.benchmark(), World(0, 2, torch.device("cpu")))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"weight": 1.1}, "weight of method {} must be from 0 to 1, not 1.1"),
        ({"weight": -1}, "weight of method {} must be from 0 to 1, not -1"),
        ({"margin": 0.0}, "margin of method {} must be positive, not 0.0"),
        ({"normalise": 1}, "option normalise of method {} cannot be 1, such as False"),
    ],
)
def test_impossible_settings_are_refused(name, settings, words):
    with pytest.raises(UserError, match=words.format(name)):
        find_method(name).check(settings)
