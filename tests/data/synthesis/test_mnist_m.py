"""Blending is the absolute difference with a crop, and crops come from everywhere."""

import sys

import numpy as np
import pytest
import torch

from xcnorm.data.embedded import photographs
from xcnorm.data.synthesis import blend
from xcnorm.data.synthesis.mnist_m import _crops
from xcnorm.errors import UserError

GENERATOR = torch.Generator().manual_seed(0)
DIGITS = torch.randint(0, 256, (200, 1, 28, 20), generator=GENERATOR, dtype=torch.uint8)
PHOTOGRAPHS = [
    torch.randint(0, 256, (3, *size), generator=GENERATOR, dtype=torch.uint8) for size in [(40, 50), (28, 90)]
]


def test_absolute_difference():
    blended = blend(DIGITS, PHOTOGRAPHS, seed=3)
    assert (blended.shape, blended.dtype) == ((200, 3, 28, 20), torch.uint8)
    crops = _crops(3, torch.arange(200), PHOTOGRAPHS, 28, 20)
    for image, digit, chosen, top, left in zip(
        blended.numpy(), DIGITS.numpy(), *map(torch.Tensor.tolist, crops), strict=True
    ):
        crop = PHOTOGRAPHS[chosen].numpy()[:, top : top + 28, left : left + 20].astype(int)
        np.testing.assert_array_equal(image, np.abs(crop - digit.astype(int)))


def test_crops_are_even_over_all_that_fit():
    chosen, top, left = _crops(0, torch.arange(26_000), PHOTOGRAPHS, 28, 20)
    assert abs((chosen == 0).float().mean() - 0.5) < 0.02
    assert top[chosen == 1].eq(0).all()
    tops = top[chosen == 0].bincount() / (chosen == 0).sum()
    assert len(tops) == 13
    assert (tops - 1 / 13).abs().max() < 0.012
    assert (left[chosen == 1].min(), left[chosen == 1].max()) == (0, 70)
    assert (left[chosen == 0].min(), left[chosen == 0].max()) == (0, 30)


@pytest.mark.parametrize("batch", [1, 7, 64])
def test_an_image_does_not_depend_on_its_batch(batch):
    together = blend(DIGITS, PHOTOGRAPHS)
    index = torch.arange(200)
    some = torch.cat([blend(DIGITS[i], PHOTOGRAPHS, index=i) for i in index.split(batch)])
    assert torch.equal(some, together)
    assert not torch.equal(together, blend(DIGITS, PHOTOGRAPHS, seed=1))


def test_photographs_have_texture():
    pictures = photographs()
    assert [(tuple(p.shape), p.dtype) for p in pictures] == [((3, 427, 640), torch.uint8)] * 2
    crops = blend(torch.zeros(500, 1, 28, 28, dtype=torch.uint8), pictures)
    assert crops.float().std((2, 3)).mean() > 15


@pytest.mark.parametrize(
    ("digits", "pictures", "message"),
    [
        (DIGITS.float(), PHOTOGRAPHS, r"digits must be uint8 of shape \(N, 1, H, W\), not torch.float32"),
        (DIGITS, [], "at least one photograph"),
        (
            DIGITS,
            [PHOTOGRAPHS[0][:, :27]],
            r"photograph 0 must be .* \(3, 28 or more, 20 or more\), not .*\(3, 27, 50\)",
        ),
    ],
)
def test_bad_input(digits, pictures, message):
    with pytest.raises(UserError, match=message):
        blend(digits, pictures)


def test_missing_scikit_learn_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(UserError, match=r'sklearn.*pip install "xcnorm\[data\]"'):
        photographs()
