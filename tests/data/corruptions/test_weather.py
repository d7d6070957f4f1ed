"""Fog and frost."""

from functools import partial

import numpy as np
import pytest
import torch

from tests.data.corruptions import reference_weather as reference
from tests.data.corruptions.checks import SIZES, assert_like_reference, assert_same_pictures, eight_bits, pictures
from xcnorm.data import corruptions
from xcnorm.data.corruptions import Shape
from xcnorm.data.corruptions import frost as frost_module
from xcnorm.data.corruptions.frost import with_pictures
from xcnorm.data.synthesis.frost import frost_pictures
from xcnorm.errors import UserError


@pytest.mark.parametrize("constants", SIZES)
@pytest.mark.parametrize("severity", range(1, 6))
def test_fog_like_reference(severity, constants):
    assert_like_reference("fog", reference.fog, severity, constants, share=0.0005)


def correlation(a, b):
    return torch.corrcoef(torch.stack([a.double().flatten(), b.double().flatten()]))[0, 1].item()


def test_less_is_seen_with_severity():
    images = pictures(16, 32, 32)
    seen = [correlation(images, corruptions.corrupt(images, "fog", s)) for s in range(1, 6)]
    assert seen == sorted(seen, reverse=True)
    assert seen[0] > 0.9
    assert seen[4] < 0.8


def test_fog_leaves_black_images_black():
    assert corruptions.corrupt(torch.zeros(1, 3, 8, 8, dtype=torch.uint8), "fog", 5).max() == 0


def crystals(count, sizes):
    """Pictures in which no two pixels near each other are alike, so that a piece cut from the wrong place shows."""
    generator = np.random.default_rng(1)
    return tuple(
        torch.from_numpy(generator.integers(0, 256, (3, *size)).astype(np.uint8))
        for size, _ in zip(sizes, range(count), strict=False)
    )


@pytest.mark.parametrize("count", [1, 3, 6])
@pytest.mark.parametrize("constants", SIZES)
def test_frost_like_reference(constants, count):
    height, width = SIZES[constants]
    frost = crystals(count, [(201, 203), (322, 199), (174, 286), (180, 200), (190, 210), (300, 300)])
    images, index = pictures(20, height, width), torch.arange(20)
    shrunk = [picture.permute(1, 2, 0).numpy() for picture in frost]
    if constants == "cifar":
        shrunk = [reference.resized(picture, 0.2) for picture in shrunk]
    for severity in range(1, 6):
        actual = corruptions.corrupt(images, "frost", severity, 4, index, constants=constants, frost=frost)
        fields = corruptions.draw("frost", severity, Shape(3, height, width), index, 4, constants=constants)
        expected = [
            reference.frost(
                image.permute(1, 2, 0).numpy() / 255, {k: v[i] for k, v in fields.items()}, severity, constants, shrunk
            )
            for i, image in enumerate(images)
        ]
        assert_same_pictures(actual.permute(0, 2, 3, 1), eight_bits(np.stack(expected)), share=0.0005)
    chosen = {int(u * min(count, 5)) for u in fields["picture"].double()}
    assert chosen == set(range(min(count, 5)))


@pytest.mark.parametrize("constants", SIZES)
def test_frost_is_generated_unless_given(constants):
    height, width = SIZES[constants]
    images = pictures(2, height, width)
    grown = frost_pictures(5, 1024, 1024, seed=0)
    expected = corruptions.corrupt(images, "frost", 3, constants=constants, frost=tuple(grown))
    assert torch.equal(corruptions.corrupt(images, "frost", 3, constants=constants), expected)


def test_frost_for_images_larger_than_the_generated_pictures(monkeypatch):
    sizes = []

    def flat(count, height, width, seed):
        sizes.append((height, width))
        return tuple(torch.full((3, height, width), 100, dtype=torch.uint8) for _ in range(count))

    monkeypatch.setattr(frost_module, "frost_pictures", flat)
    monkeypatch.setattr(frost_module, "_generated", frost_module._generated.__wrapped__)  # must not be remembered
    images = torch.full((1, 3, 8, 1100), 50, dtype=torch.uint8)
    assert (corruptions.corrupt(images, "frost", 1, constants="imagenet") == 90).all()
    assert sizes == [(1024, 1024)]  # which goes on as its mirror image


@pytest.mark.parametrize(
    ("frost", "message"),
    [
        ((), "at least one picture"),
        ((torch.zeros(3, 400, 400),), r"picture 1 must be uint8 of \(3, H, W\), not torch.float32"),
        ((torch.zeros(400, 400, 3, dtype=torch.uint8),), r"not torch.uint8 of \(400, 400, 3\)"),
        (
            (torch.zeros(3, 400, 400, dtype=torch.uint8), torch.zeros(3, 165, 164, dtype=torch.uint8)),
            "frost picture 2 is 165x164; for these images it must be at least 165x165",
        ),
    ],
)
def test_wrong_frost_pictures(frost, message):
    with pytest.raises(UserError, match=message):
        corruptions.corrupt(pictures(1, 32, 32), "frost", frost=frost)


def test_smallest_frost_picture():
    picture = torch.zeros(3, 165, 165, dtype=torch.uint8)
    images = pictures(4, 32, 32)
    corrupt = partial(with_pictures((picture,)).apply, images / 255)
    fields = {name: torch.full((4,), 1 - 2**-24) for name in ("picture", "top", "left")}
    torch.testing.assert_close(corrupt(fields, with_pictures((picture,)).cifar[0]), images / 255)
