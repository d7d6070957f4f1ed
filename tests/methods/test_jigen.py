"""JiGen against its formulas, and its puzzles against tiles cut out by hand."""

import math
from itertools import combinations

import pytest
import torch
import torch.nn.functional as F

from tests.methods import small
from xcnorm.errors import UserError
from xcnorm.methods.jigen import JiGen, rearranged
from xcnorm.methods.permutations import far_apart

SMALL = {"ordered": 0.5, "permutations": 5}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def images(count=4, pixels=9):
    return torch.rand(count, 3, pixels, pixels, dtype=torch.float64, generator=generator(5))


def begun(batch=16, part=slice(0, 16), **settings):
    """A method that has begun, in double precision, for a process that has a part of the batch."""
    trainer = small.trainer("jigen")
    trainer.training.batch, trainer.training.part = batch, part
    method = JiGen(**settings)
    method.begin(trainer.training)
    method.companion().double()
    return method, trainer.model.double()


def distances(permutations):
    return [sum(a != b for a, b in zip(*pair, strict=True)) for pair in combinations(permutations, 2)]


@pytest.mark.parametrize(("count", "least", "mean"), [(30, 7, 8.2), (100, 6, 8.0)])
def test_permutations_are_far_apart(count, least, mean):
    """The file of 30 that comes with the published program has a smallest distance of 4 and a mean of 8.26."""
    found = far_apart(9, count).tolist()
    assert all(sorted(permutation) == list(range(9)) for permutation in found)
    assert list(range(9)) not in found
    between = distances([list(range(9)), *found])
    assert min(between) >= least
    assert sum(between) / len(between) > mean


@pytest.mark.parametrize("count", [1, 4, 8])
def test_few_permutations_have_no_tile_in_the_same_place(count):
    assert set(distances([list(range(9)), *far_apart(9, count).tolist()])) == {9}


@pytest.mark.parametrize("pixels", [6, 9, 96])
def test_tiles_move_to_the_places_that_a_permutation_gives_them(pixels):
    given, side = images(3, pixels), pixels // 3
    arrangement = torch.stack([far_apart(9, 5)[2], torch.arange(9), far_apart(9, 5)[4]])
    found = rearranged(given, arrangement)
    for image in range(3):
        for place in range(9):
            top, left = place // 3 * side, place % 3 * side
            tile = int(arrangement[image, place])
            from_top, from_left = tile // 3 * side, tile % 3 * side
            expected = given[image, :, from_top : from_top + side, from_left : from_left + side]
            assert torch.equal(found[image, :, top : top + side, left : left + side], expected)


@pytest.mark.parametrize(("pixels", "next_size"), [(32, 33), (31, 33), (224, 225)])
def test_sizes_that_three_does_not_divide_go_by_way_of_the_next_that_it_does(pixels, next_size):
    given, arrangement = images(2, pixels), torch.stack([torch.arange(9), far_apart(9, 1)[0]])
    found = rearranged(given, arrangement)
    assert torch.equal(found[0], given[0])  # in order: not even resized
    larger = F.interpolate(given[1:], next_size, mode="bilinear")
    expected = F.interpolate(rearranged(larger, arrangement[1:]), pixels, mode="bilinear")
    assert torch.equal(found[1:], expected)
    assert found.shape == given.shape


def test_a_batch_in_another_memory_layout_is_rearranged_alike():
    given, arrangement = images(3, 32), far_apart(9, 3)
    assert torch.equal(
        rearranged(given.contiguous(memory_format=torch.channels_last), arrangement), rearranged(given, arrangement)
    )


@pytest.mark.parametrize("classify", ["all", "ordered"])
def test_the_loss_is_that_of_the_classes_and_of_the_puzzle(classify):
    method, model = begun(classify=classify, weight=0.7, ordered=0.4, permutations=6)
    head, given = method.companion(), images(16, 32)
    labels = torch.randint(10, (16,), generator=generator())
    drawn = method.draw(given, labels, generator(1))
    puzzle = drawn[2]
    assert 0 < (puzzle == 0).sum() < 16
    seen = rearranged(given, torch.cat([torch.arange(9)[None], far_apart(9, 6)])[puzzle])
    embedding = model.features(seen)
    classes, puzzles = (
        layer(embedding).log_softmax(1).tolist()  # of the whole batch: the network has batch statistics
        for layer in (model.classifier, head)
    )
    counted = [i for i in range(16) if classify == "all" or puzzle[i] == 0]
    expected = -sum(classes[i][labels[i]] for i in counted) / len(counted)
    expected -= 0.7 * sum(puzzles[i][puzzle[i]] for i in range(16)) / 16
    assert method.loss(model, *drawn).item() == pytest.approx(expected, rel=1e-6)  # shares are in single precision


def test_without_an_image_in_order_there_is_no_class_loss_of_those_in_order():
    method, model = begun(classify="ordered", weight=0.0, ordered=0.0)
    drawn = method.draw(images(16, 32), torch.zeros(16, dtype=torch.int64), generator())
    assert method.loss(model, *drawn).item() == 0


@pytest.mark.parametrize("ordered", [0.0, 0.3, 0.9, 1.0])
def test_images_stay_in_order_with_their_probability_and_permutations_are_equally_likely(ordered):
    count = 20_000
    method, _ = begun(count, slice(0, count), ordered=ordered, permutations=5)
    puzzle = method.draw(torch.empty(count, 0), torch.zeros(count, dtype=torch.int64), generator())[2]
    counts = puzzle.bincount(minlength=6).tolist()
    for number, probability in zip(counts, [ordered, *[(1 - ordered) / 5] * 5], strict=True):
        assert abs(number - count * probability) <= 5 * math.sqrt(count * probability * (1 - probability))


@pytest.mark.parametrize("classify", ["all", "ordered"])
def test_processes_share_a_batch(classify):
    """Each draws what is its part of the whole, and the mean of their losses is the loss of the whole."""
    settings = {"classify": classify, "ordered": 0.5, "permutations": 5}
    given, labels = images(16, 32), torch.randint(10, (16,), generator=generator())
    whole, model = begun(**settings)
    model.eval()  # statistics over a batch are the engine's business
    expected = whole.draw(given, labels, generator(3))
    losses = []
    for part in (slice(0, 8), slice(8, 16)):
        method, _ = begun(16, part, **settings)
        method._puzzler = whole._puzzler
        drawn = method.draw(given[part], labels[part], generator(3))
        for own, all_of_them in zip(drawn, expected, strict=True):
            assert torch.equal(own, all_of_them[part])
        losses.append(method.loss(model, *drawn))
    torch.testing.assert_close(sum(losses) / 2, whole.loss(model, *expected), rtol=1e-12, atol=0)


def test_the_puzzler_learns_and_is_not_part_of_the_network():
    trainer = small.trainer("jigen")
    head = trainer.objective.companion
    before = head.weight.detach().clone()
    small.losses(trainer, 2)
    assert head.weight.shape == (6, 16)
    assert not torch.equal(head.weight, before)
    assert list(trainer.model.state_dict()) == list(small.trainer("erm").model.state_dict())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"weight": -0.1}, "weight of method jigen must be 0 or more, not -0.1"),
        ({"ordered": 1.5}, "ordered of method jigen is a probability, not 1.5"),
        ({"permutations": 0}, "permutations of method jigen must be from 1 to 1000, not 0"),
        ({"permutations": 1001}, "permutations of method jigen must be from 1 to 1000, not 1001"),
        ({"classify": "sane"}, "classify of method jigen must be 'all' or 'ordered', not 'sane'"),
    ],
)
def test_impossible_settings_are_refused(settings, words):
    with pytest.raises(UserError, match=words):
        JiGen.check(settings)
