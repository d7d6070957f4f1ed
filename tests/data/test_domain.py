"""A share of a domain."""

import torch

from xcnorm.data import Domain


def domain():
    labels = torch.arange(240) % 3
    labels[0] = 7
    return Domain("some", torch.arange(240, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 2, 2), labels, "a note")


def test_a_share_is_of_each_class_and_at_least_one_image():
    few = domain().share(0.1, seed=0)
    assert [int((few.labels == label).sum()) for label in (0, 1, 2, 7)] == [8, 8, 8, 1]
    assert (few.name, few.note) == ("some", "a note")


def test_images_keep_their_labels_and_their_order():
    few = domain().share(0.1, seed=0)
    places = few.images[:, 0, 0, 0].long()
    assert torch.equal(domain().labels[places], few.labels)
    assert torch.equal(places, places.sort().values)


def test_the_seed_chooses():
    first, again, other = (domain().share(0.1, seed=seed).images for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
