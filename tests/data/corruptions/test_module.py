"""A corruption as a transform does what the function does, and keeps the rules of torchvision's transforms."""

import pytest
import torch
from torch import nn

from xcnorm.data.corruptions import Corrupt, corrupt
from xcnorm.errors import UserError

IMAGES = torch.randint(0, 256, (3, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_a_batch_is_corrupted_as_by_the_function():
    assert torch.equal(Corrupt("shot_noise", 2, seed=5)(IMAGES), corrupt(IMAGES, "shot_noise", 2, seed=5))


@pytest.mark.parametrize("images", [IMAGES, IMAGES.float() / 255], ids=["uint8", "float32"])
def test_a_single_image_is_a_batch_of_one(images):
    found = Corrupt("shot_noise", 2, seed=5)(images[0])
    assert (found.shape, found.dtype) == (images[0].shape, images.dtype)
    assert torch.equal(found, corrupt(images[:1], "shot_noise", 2, seed=5)[0])


def test_what_is_random_follows_torchs_generator():
    noise = Corrupt("gaussian_noise", 3)
    torch.manual_seed(7)
    first, second = noise(IMAGES), noise(IMAGES)
    torch.manual_seed(7)
    assert torch.equal(noise(IMAGES), first)
    assert not torch.equal(first, second)


def test_what_comes_along_is_passed_on():
    label = torch.tensor(3)
    image, passed = Corrupt("fog", seed=0)(IMAGES[0], label)
    assert passed is label
    assert torch.equal(image, Corrupt("fog", seed=0)(IMAGES[0]))


@pytest.mark.parametrize(
    ("arguments", "message"), [(("fogg",), "did you mean 'fog'"), (("fog", 6), "severity must be 1, 2, 3, 4 or 5")]
)
def test_bad_arguments_are_refused_before_the_first_image(arguments, message):
    with pytest.raises(UserError, match=message):
        Corrupt(*arguments)


def test_a_picture_that_is_no_tensor_is_refused():
    with pytest.raises(UserError, match=r"Corrupt needs a tensor, not list; put v2.ToImage\(\) before it"):
        Corrupt("fog")([1, 2])


def test_it_says_what_it_is():
    assert repr(nn.Sequential(Corrupt("fog", 3))) == "Sequential(\n  (0): Corrupt('fog', severity=3, seed=None)\n)"


def test_it_composes_with_torchvision():
    v2 = pytest.importorskip("torchvision.transforms.v2", reason="torchvision is not installed")
    tv_tensors = pytest.importorskip("torchvision.tv_tensors")
    pipeline = v2.Compose(
        [v2.RandomHorizontalFlip(1.0), Corrupt("contrast", 5, seed=0), v2.ToDtype(torch.float32, scale=True)]
    )
    expected = corrupt(IMAGES[:1].flip(3), "contrast", 5)[0].float() / 255
    torch.testing.assert_close(pipeline(tv_tensors.Image(IMAGES[0])).as_subclass(torch.Tensor), expected)
    image, label = pipeline(tv_tensors.Image(IMAGES[0]), 4)
    assert label == 4
    torch.testing.assert_close(image.as_subclass(torch.Tensor), expected)
