"""What is drawn for several steps at once is what is drawn for one after the other."""

from functools import partial

import pytest
import torch

from tests.engine import small
from xcnorm.data import transforms
from xcnorm.data.training_images import Preparation, TrainingImages
from xcnorm.engine.batches import Batches
from xcnorm.engine.feed import Feed
from xcnorm.engine.settings import DataSettings
from xcnorm.methods import Augmentation
from xcnorm.methods.method import METHODS

CUDA = torch.device("cuda")  # by name: nothing is drawn there


def trainer(together, **changes):
    made = small.trainer(small.experiment(schedule={"iterations": 12, "batch": 8}, **changes))
    made.feed.together = together
    return made


def together(device, *shape, **changes):
    """How many steps with images of this shape are drawn at once."""
    made = trainer(1, **changes)
    return Feed(made.batches, made.objective, made.generators, torch.Size(shape), device).together


def batches(part=slice(0, 8)):
    images = TrainingImages(small.domain("train", 36, 16), Preparation(), small.ALONE.device)
    data, generator = DataSettings(augment=("flip", "crop")), torch.Generator().manual_seed(3)
    return Batches(images, 8, data, seed=1, generator=generator, part=part, source_only=False)


def test_several_batches_are_those_that_come_one_by_one():
    """Over the end of an epoch, whose last four images no batch has; with the same flips and crops."""
    several, one = batches(), batches()
    images, labels, epochs = several.take(6)
    expected = [next(one) for _ in range(6)]
    assert epochs == [0, 0, 0, 0, 1, 1]
    assert torch.equal(images, torch.cat([each for each, _ in expected]))
    assert torch.equal(labels, torch.cat([each for _, each in expected]))
    assert torch.equal(next(several)[0], next(one)[0])


def test_every_process_takes_its_part_of_each_batch():
    whole, _, _ = batches().take(3)
    for part in (slice(0, 4), slice(4, 8)):
        own, _, _ = batches(part).take(3)
        assert torch.equal(own, torch.cat([batch[part] for batch in whole.split(8)]))


def test_changes_are_those_of_the_settings():
    """Drawn by hand: a flip, then a crop, of one batch after the other."""
    made, generator = batches(), torch.Generator().manual_seed(3)
    plain = TrainingImages(small.domain("train", 36, 16), Preparation(), small.ALONE.device)
    changes = [partial(change, generator=generator) for change in (transforms.random_flip, transforms.random_crop)]
    order = batches().sampler
    expected = [plain.take(next(order), changes)[0] for _ in range(3)]
    assert torch.equal(made.take(3)[0], torch.cat(expected))


@pytest.mark.parametrize("first", [1, 5])
@pytest.mark.parametrize("then", [1, 5])
def test_a_run_goes_on_with_the_steps_that_it_had_left(first, then):
    """Also where another number of steps is drawn at once than before."""
    changes = {"method__name": "trivial", "method__augment": "affine", "data__augment": ["flip", "crop"]}
    whole = trainer(first, **changes)
    for _ in range(7):
        next(whole.feed)
    resumed = trainer(then, **changes)
    resumed.load_state_dict(7, whole.state_dict())
    assert resumed.feed.epoch == whole.feed.epoch
    for _ in range(7):
        for one, other in zip(next(whole.feed), next(resumed.feed), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0 if first == then else 1e-6)


def test_the_epoch_is_that_of_the_next_step():
    one, several = trainer(1), trainer(5)
    for _ in range(9):
        assert several.feed.epoch == one.feed.epoch
        next(one.feed), next(several.feed)


def test_a_state_of_a_version_that_drew_one_step_at_a_time_is_gone_on_from():
    whole, resumed = trainer(1), trainer(1)
    next(whole.feed)
    state = whole.feed.state_dict()
    del state["taken"]
    resumed.feed.load_state_dict(state)
    assert torch.equal(next(resumed.feed)[0], next(whole.feed)[0])


@pytest.mark.parametrize(
    ("shape", "steps"), [((32, 3, 28, 28), 32), ((128, 3, 32, 32), 21), ((32, 3, 224, 224), 1), ((512, 3, 224, 224), 1)]
)
def test_how_many_steps_are_drawn_at_once_is_bounded_by_their_size(shape, steps):
    assert together(CUDA, *shape) == steps


def test_a_cpu_draws_one_step_at_a_time():
    assert together(small.ALONE.device, 128, 3, 32, 32) == 1


@pytest.mark.parametrize("method", ["jigen", "alt", "ada", "ccsa"])
def test_what_draws_itself_or_adds_images_is_drawn_one_step_at_a_time(method):
    assert together(CUDA, 8, 3, 16, 16, method__name=method, method__augment="affine", **_few(method)) == 1


def test_an_augmentation_that_sees_images_before_it_draws_is_drawn_one_step_at_a_time(monkeypatch):
    class Late(Augmentation):
        def views_of(self, images, generator):
            return [images.flip(-1)]

    monkeypatch.setitem(METHODS._items, "late", Late)
    assert together(CUDA, 8, 3, 16, 16, method__augment="late") == 1


def _few(method):
    return {"method__options": {"phases": 1, "gap": 5, "batch": 8}} if method == "ada" else {}
