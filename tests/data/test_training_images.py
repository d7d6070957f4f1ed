"""Training images: the source comes as it is, and what was added in the form it was kept in."""

import pytest
import torch

from tests.engine.small import domain
from xcnorm.data import transforms
from xcnorm.data.training_images import Preparation, TrainingImages

CPU = torch.device("cpu")
PREPARATIONS = [Preparation(), Preparation([0.1, 0.2, 0.3], [0.5, 0.25, 1.0]), Preparation(0.0, 1.0, True)]


def images_of(prepare=PREPARATIONS[0], count=10):
    return TrainingImages(domain("train", count, 8), prepare, CPU)


@pytest.mark.parametrize("prepare", PREPARATIONS)
def test_preparing_can_be_undone(prepare):
    images = domain("train", 4, 8).images
    inputs = prepare(images)
    assert inputs.is_contiguous(memory_format=torch.channels_last) or not prepare.channels_last
    torch.testing.assert_close(prepare.undo(inputs), images.expand(-1, 3, -1, -1) / 255)


def test_the_source_comes_as_it_is():
    made, index, source = images_of(), torch.tensor([7, 0, 3]), domain("train", 10, 8)
    inputs, labels = made.take(index)
    assert torch.equal(inputs, made.prepare(source.images[index]))
    assert torch.equal(labels, source.labels[index])


@pytest.mark.parametrize("prepare", PREPARATIONS)
@pytest.mark.parametrize("as_bytes", [True, False])
def test_added_images_come_back_in_the_order_asked_for(prepare, as_bytes):
    made = images_of(prepare)
    first, second = (3 * torch.rand(3, 3, 8, 8) - 1 for _ in range(2))  # beyond the range of an image on both sides
    for images in (first, second):
        made.add(prepare(images), torch.tensor([5, 6, 7]), as_bytes=as_bytes)
    assert (len(made), made.source_size) == (16, 10)
    inputs, labels = made.take(torch.tensor([12, 4, 15, 10]))
    kept = torch.stack([first[2], made.prepare.undo(made.take(torch.tensor([4]))[0])[0], second[2], first[0]])
    if as_bytes:
        kept = (kept.clamp(0, 1) * 255).round() / 255
    torch.testing.assert_close(prepare.undo(inputs), kept, rtol=1e-3, atol=1e-3 if not as_bytes else 1e-6)
    assert labels.tolist() == [7, 4 % 3, 7, 5]


def test_changes_see_images_before_they_are_normalised():
    made = images_of()
    made.add(made.prepare(torch.rand(2, 3, 8, 8)), torch.tensor([0, 1]), as_bytes=True)
    for index in (torch.tensor([1, 2]), torch.tensor([1, 11])):
        plain, _ = made.take(index)
        flipped, _ = made.take(index, [lambda images: images.flip(-1)])
        assert torch.equal(flipped, plain.flip(-1))


@pytest.mark.parametrize("as_bytes", [True, False])
def test_what_was_added_survives_a_checkpoint(as_bytes):
    made, other = images_of(), images_of()
    made.add(made.prepare(torch.rand(2, 3, 8, 8)), torch.tensor([0, 1]), as_bytes=as_bytes)
    made.add(made.prepare(torch.rand(1, 3, 8, 8)), torch.tensor([2]), as_bytes=as_bytes)
    other.load_state_dict(made.state_dict())
    index = torch.tensor([12, 3, 10, 11])
    for one, again in zip(made.take(index), other.take(index), strict=True):
        assert torch.equal(one, again)


def test_images_can_be_taken_in_the_midst_of_half_precision():
    made = images_of()
    for _ in range(2):
        made.add(made.prepare(torch.rand(2, 3, 8, 8)), torch.tensor([0, 1]), as_bytes=False)
    with torch.autocast("cpu", torch.bfloat16):
        inputs, _ = made.take(torch.tensor([1, 10, 13]))
    assert inputs.dtype == torch.float32


def test_a_crop_of_mixed_images_draws_what_a_crop_of_the_source_draws():
    made = images_of()
    made.add(made.prepare(transforms.to_float(domain("train", 10, 8).images)), torch.arange(10) % 3, as_bytes=True)
    crops = []
    for index in (torch.tensor([1, 2]), torch.tensor([1, 12])):  # the same images, once from what was added
        generator = torch.Generator().manual_seed(0)
        crops.append(made.take(index, [lambda images, g=generator: transforms.random_crop(images, g)])[0])
    torch.testing.assert_close(*crops)
