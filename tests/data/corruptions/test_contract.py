"""What all corruptions keep to: an image's result is its own, whatever comes with it."""

import pytest
import torch

from tests.data.corruptions.checks import SIZES, pictures
from xcnorm.data import corruptions
from xcnorm.data.corruptions import CATEGORIES, Shape, run
from xcnorm.errors import UserError

NAMES = corruptions.names()
CHANGED = ("brightness", "contrast")  # whose category is not the same in all groupings


def test_fifteen_and_four():
    standard = {name for members in CATEGORIES["sdg4"].values() for name in members}
    assert len(NAMES) == 19
    assert set(NAMES[:15]) == standard
    assert NAMES[:15] == (
        *("gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
        *("snow", "frost", "fog", "brightness", "contrast", "elastic_transform", "pixelate", "jpeg_compression"),
    )
    assert NAMES[15:] == ("speckle_noise", "gaussian_blur", "spatter", "saturate")


@pytest.mark.parametrize("groups", CATEGORIES.values(), ids=CATEGORIES)
def test_groups_name_corruptions_once(groups):
    members = [name for group in groups.values() for name in group]
    assert len(members) == len(set(members))
    assert set(members) <= set(NAMES)


def test_group_sizes():
    sizes = {name: [len(group) for group in groups.values()] for name, groups in CATEGORIES.items()}
    assert sizes == {
        "sdg4": [3, 4, 3, 5],
        "hendrycks4": [3, 4, 4, 4],
        "all19": [3, 5, 4, 7],
        "mrs5": [3, 4, 3, 3, 3],
        "all": [4, 5, 4, 6],
    }
    assert set(CATEGORIES["sdg4"]["digital"]) == {"jpeg_compression", "pixelate", "elastic_transform", *CHANGED}
    assert set(CATEGORIES["mrs5"]["chromatic"]) == {"saturate", *CHANGED}
    assert "brightness" in CATEGORIES["hendrycks4"]["weather"]


@pytest.mark.parametrize("constants", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_same_bytes_in_batches_of_any_size(name, constants):
    images = pictures(64, *SIZES[constants])
    index = torch.randperm(1000, generator=torch.Generator().manual_seed(0))[:64]
    for severity in (3, 5):
        together = corruptions.corrupt(images, name, severity, 7, index, constants=constants)
        for size in (1, 7):
            parts = zip(images.split(size), index.split(size), strict=True)
            apart = [corruptions.corrupt(part, name, severity, 7, own, constants=constants) for part, own in parts]
            assert torch.equal(torch.cat(apart), together)


@pytest.mark.parametrize("name", NAMES)
def test_chunks_do_not_matter(name, monkeypatch):
    images = pictures(10, 32, 32)
    whole = corruptions.corrupt(images, name, 4)
    monkeypatch.setitem(run._CHUNK, "cpu", 3 * 3 * 32 * 32)
    assert torch.equal(corruptions.corrupt(images, name, 4), whole)


@pytest.mark.parametrize("name", NAMES)
def test_drawing_and_applying_make_the_whole(name):
    images, index = pictures(5, 32, 32), torch.tensor([9, 8, 7, 6, 5])
    fields = corruptions.draw(name, 3, Shape(3, 32, 32), index, seed=11)
    assert all(len(field) == 5 for field in fields.values())
    assert torch.equal(corruptions.apply(images, name, 3, fields), corruptions.corrupt(images, name, 3, 11, index))


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_matters_where_something_is_random(name):
    images = pictures(5, 32, 32)
    one, other = (corruptions.corrupt(images, name, 5, seed) for seed in (0, 1))
    random = bool(corruptions.draw(name, 5, Shape(3, 32, 32), torch.arange(5)))
    assert torch.equal(one, other) is not random
    assert torch.equal(one, corruptions.corrupt(images, name, 5, 0))


@pytest.mark.parametrize("name", NAMES)
def test_floats_are_eight_bits(name):
    images = pictures(3, 20, 33)
    expected = corruptions.corrupt(images, name, 2, constants="imagenet")
    for dtype in (torch.float32, torch.float64):
        result = corruptions.corrupt((images / 255).to(dtype), name, 2, constants="imagenet")
        assert result.dtype == dtype
        torch.testing.assert_close(result, (expected / 255).to(dtype), rtol=0, atol=1e-6)


@pytest.mark.parametrize("constants", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_grey_images(name, constants):
    images = pictures(3, *SIZES[constants])[:, :1]
    result = corruptions.corrupt(images, name, 3, constants=constants)
    assert result.shape == images.shape
    assert result.dtype == torch.uint8
    assert (result != images).any() or name == "saturate"  # there is nothing to multiply
    # What goes wrong is the same in a picture whose channels are equal, in the usual weights of the three.
    fields = corruptions.draw(name, 3, Shape(*images.shape[1:]), torch.arange(3), constants=constants)
    colour = corruptions.apply(images.expand(-1, 3, -1, -1), name, 3, fields, constants=constants).float()
    weighed = 0.299 * colour[:, :1] + 0.587 * colour[:, 1:2] + 0.114 * colour[:, 2:]
    assert (result - weighed).abs().max() <= 1.01


@pytest.mark.parametrize("size", [(4, 4), (4, 70), (65, 5)], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_any_size(name, size):
    images = torch.randint(0, 256, (2, 3, *size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    for constants in SIZES:
        for severity in (1, 5):
            assert corruptions.corrupt(images, name, severity, constants=constants).shape == images.shape


def test_an_empty_batch():
    assert corruptions.corrupt(torch.empty(0, 3, 32, 32, dtype=torch.uint8), "fog").shape == (0, 3, 32, 32)


def test_small_images_get_the_constants_of_cifar():
    for pixels, constants in ((63, "cifar"), (64, "imagenet")):
        images = pictures(1, pixels, 80)
        automatic = corruptions.corrupt(images, "contrast", 1)
        assert torch.equal(automatic, corruptions.corrupt(images, "contrast", 1, constants=constants))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "foq"}, "did you mean 'fog'"),
        ({"severity": 6}, "severity must be 1, 2, 3, 4 or 5, not 6"),
        ({"severity": 0}, "severity must be"),
        ({"constants": "cifr"}, "did you mean 'cifar'"),
        ({"images": torch.zeros(3, 32, 32, dtype=torch.uint8)}, "one or three channels"),
        ({"images": torch.zeros(1, 2, 32, 32, dtype=torch.uint8)}, "one or three channels"),
        ({"images": torch.zeros(1, 3, 3, 32, dtype=torch.uint8)}, "at least 4 pixels"),
        ({"images": torch.zeros(1, 3, 32, 32, dtype=torch.int64)}, "not torch.int64"),
        ({"images": torch.full((1, 3, 32, 32), torch.nan)}, "must be finite"),
        ({"severity": 1.0}, "severity must be"),
        ({"index": torch.arange(3)}, "index must be int64 of shape"),
        ({"index": torch.zeros(2)}, "index must be int64"),
        ({"frost": ()}, "for the corruption 'frost'"),
        ({"name": "frost", "frost": ()}, "at least one picture"),
    ],
)
def test_bad_arguments_are_one_line(arguments, words):
    images = torch.zeros(2, 3, 32, 32, dtype=torch.uint8)
    with pytest.raises(UserError, match=words) as caught:
        corruptions.corrupt(**({"images": images, "name": "fog", "severity": 1} | arguments))
    assert "\n" not in str(caught.value)
