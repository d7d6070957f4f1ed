"""A method and an augmentation as one module: what is asked of the network, and what learns."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xcnorm.data import Domain
from xcnorm.data.training_images import Preparation, TrainingImages
from xcnorm.methods import Method, Objective, Training
from xcnorm.methods.affine import Affine
from xcnorm.methods.augmentation import Augmentation, disagreement
from xcnorm.methods.erm import ERM
from xcnorm.methods.pro_randconv import ProRandConv
from xcnorm.methods.randconv import RandConv
from xcnorm.models import Network

CPU = torch.device("cpu")


class Recorder(Network):
    """A network that remembers what it saw."""

    def __init__(self) -> None:
        super().__init__(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), 3, 5)
        self.seen: list[Tensor] = []

    def forward(self, input: Tensor) -> Tensor:
        self.seen.append(input)
        return super().forward(input)


class Flipped(Method):
    """Learns mirrored images, through a head of its own."""

    def begin(self, training):
        self.head = nn.Linear(training.network.embedding_size, 5)

    def companion(self):
        return self.head

    def draw(self, images, labels, generator):
        return images.flip(-1), labels

    def loss(self, model, *drawn):
        images, labels = drawn
        return F.cross_entropy(model(images), labels) + F.cross_entropy(self.head(model.features(images)), labels)


def images():
    return torch.randn(4, 3, 9, 9, generator=torch.Generator().manual_seed(5))


def generator():
    return torch.Generator().manual_seed(3)


def objective(method, augmentation=None):
    network = Recorder()
    source = Domain("none", torch.zeros(4, 3, 9, 9, dtype=torch.uint8), torch.arange(4))
    training = Training(network, TrainingImages(source, Preparation(), CPU), CPU, 4, slice(0, 4), 10)
    return Objective(method, augmentation, network, training)


@pytest.mark.parametrize("consistency", [0.0, 7.0])
def test_an_augmentation_is_erm_on_its_views(consistency):
    method, labels = RandConv(consistency=consistency), torch.arange(4)
    made = objective(method)
    loss = made(*made.draw(images(), labels, generator()))
    views = method.views_of(images(), generator())
    for actual, view in zip(made.network.seen, views, strict=True):  # every view once
        assert torch.equal(actual, view)
    logits = [made.network(view) for view in views]
    expected = F.cross_entropy(logits[0], labels)
    if consistency:
        expected = expected + consistency * disagreement(logits)
    torch.testing.assert_close(loss, expected)


def test_views_that_are_the_image_itself_are_asked_about_as_often():
    made = objective(RandConv(identity=1.0))
    made(*made.draw(images(), torch.arange(4), generator()))
    assert len(made.network.seen) == 3


def test_a_method_that_changes_the_view_is_asked_about_both():
    augmentation, labels = RandConv(), torch.arange(4)
    made = objective(Flipped(), augmentation)
    drawn = made.draw(images(), labels, generator())
    loss = made(*drawn)
    assert len(made.network.seen) == 4
    views = augmentation.views_of(images(), generator())
    expected = made.method.loss(made.network, views[0].flip(-1), labels)
    expected = expected + augmentation.consistency * disagreement([made.network(view) for view in views])
    torch.testing.assert_close(loss, expected)


def test_without_an_augmentation_the_method_is_all():
    made, labels = objective(ERM()), torch.arange(4)
    drawn = made.draw(given := images(), labels, generator())
    assert drawn == (given, labels)
    assert made(*drawn) == F.cross_entropy(made.network(given), labels)


def test_everything_that_learns_is_a_parameter():
    made = objective(Flipped(), RandConv())
    wanted = [*made.network.parameters(), *made.method.head.parameters()]
    assert {id(parameter) for parameter in made.parameters()} == {id(parameter) for parameter in wanted}
    made(*made.draw(images(), torch.arange(4), generator())).backward()
    assert all(parameter.grad is not None for parameter in wanted)


class Doubled(Augmentation):
    """Learns from the images and from twice them."""

    @property
    def learned(self):
        return 2

    def views_with(self, images):
        return [images, 2 * images]


@pytest.mark.parametrize("consistency", [0.0, 7.0])
def test_the_losses_of_views_that_are_learned_from_are_added(consistency):
    made, labels = objective(Doubled(consistency=consistency)), torch.arange(4)
    loss = made(*made.draw(images(), labels, generator()))
    assert len(made.network.seen) == 2
    logits = [made.network(view) for view in (images(), 2 * images())]
    expected = sum(F.cross_entropy(answer, labels) for answer in logits) + consistency * disagreement(logits)
    torch.testing.assert_close(loss, expected)


def test_an_augmentation_on_an_augmentation_makes_the_views_that_it_sees():
    outer, labels = RandConv(consistency=3.0), torch.arange(4)
    made = objective(Doubled(consistency=7.0), outer)
    loss = made(*made.draw(images(), labels, generator()))
    assert len(made.network.seen) == 4
    views = outer.views_of(images(), generator())
    logits = [made.network(view) for view in views]
    twice = [logits[0], made.network(2 * views[0])]
    expected = sum(F.cross_entropy(answer, labels) for answer in twice)
    torch.testing.assert_close(loss, expected + 7 * disagreement(twice) + 3 * disagreement(logits))


def test_pro_randconv_through_affine_views_learns_from_those_and_from_its_own_of_them():
    made, labels = objective(ProRandConv(), Affine()), torch.arange(4)
    source = generator()
    loss = made(*made.draw(images(), labels, source))
    source = generator()
    (first,) = Affine().views_of(images(), source)
    _, second = ProRandConv().views_of(first, source)
    assert [torch.equal(*pair) for pair in zip(made.network.seen, (first, second), strict=True)] == [True, True]
    expected = F.cross_entropy(made.network(first), labels) + F.cross_entropy(made.network(second), labels)
    torch.testing.assert_close(loss, expected)
