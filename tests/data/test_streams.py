"""Random numbers belong to an image: batch and device do not matter, and they are as random as they should be."""

import pytest
import torch

from xcnorm.data.streams import Stream

MASK = 2**64 - 1


def splitmix(value: int) -> int:
    """The published finaliser, in Python's integers."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def test_the_mixer_is_splitmix64():
    from xcnorm.data.streams import _mix

    values = [0, 1, 2**63 - 1, -1, -(2**63), 0x0123456789ABCDEF]
    mixed = _mix(torch.tensor(values)).tolist()
    assert [number & MASK for number in mixed] == [splitmix(value & MASK) for value in values]


@pytest.mark.parametrize("draw", ["uniform", "normal"])
@pytest.mark.parametrize("batch", [1, 7, 64])
def test_an_image_gets_its_own_numbers_in_any_batch(draw, batch):
    index = torch.arange(128)
    whole = Stream(3, "test", index)
    expected = [getattr(whole, draw)(3, 5), getattr(whole, draw)(11)]
    for part in range(0, 128, batch):
        stream = Stream(3, "test", index[part : part + batch])
        for numbers in expected:
            assert torch.equal(getattr(stream, draw)(*numbers.shape[1:]), numbers[part : part + batch])


def test_seed_purpose_image_and_draw_all_matter():
    index = torch.tensor([5])
    stream = Stream(0, "a", index)
    seen = [stream.uniform(8), stream.uniform(8)]
    seen += [Stream(1, "a", index).uniform(8), Stream(0, "b", index).uniform(8), Stream(0, "a", index + 1).uniform(8)]
    for one in range(len(seen)):
        for other in range(one):
            assert not (seen[one] == seen[other]).any()


def test_moments():
    stream = Stream(0, "test", torch.arange(400))
    uniform, normal = stream.uniform(5000).double(), stream.normal(5000).double()
    assert uniform.min() >= 0
    assert uniform.max() < 1
    for power in range(1, 5):
        assert uniform.pow(power).mean().item() == pytest.approx(1 / (power + 1), abs=2e-3)
    for power, moment in ((1, 0), (2, 1), (3, 0), (4, 3)):
        assert normal.pow(power).mean().item() == pytest.approx(moment, abs=2e-2)


def test_integers_are_even_and_in_range():
    counts = Stream(0, "test", torch.arange(100)).integers(-2, 5, 1000).flatten().add(2).bincount()
    assert len(counts) == 7
    assert counts.sum() == 100_000
    assert (counts - 100_000 / 7).abs().max() < 600


def test_images_and_positions_are_unrelated():
    numbers = Stream(0, "test", torch.arange(200)).normal(2000)
    for rows in (numbers[:100], numbers.T[:100]):
        correlation = torch.corrcoef(rows).fill_diagonal_(0)
        assert correlation.abs().max() < 5 / rows.shape[1] ** 0.5


def test_odd_and_empty_shapes():
    stream = Stream(0, "test", torch.arange(3))
    assert stream.uniform(3).shape == (3, 3)
    assert stream.normal().shape == (3,)
    assert Stream(0, "test", torch.arange(0)).normal(4, 4).shape == (0, 4, 4)
