"""Rendered digits show what their labels say, in many colours, whatever the batch."""

import sys

import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier

from xcnorm.data.streams import Stream
from xcnorm.data.synthesis import render_syn
from xcnorm.data.synthesis.syn import _FONTS, _backgrounds, _font_folder, _glyphs, _numbers, _readable
from xcnorm.errors import UserError

LABELS = torch.arange(300) % 10
WEIGHTS = torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)


@pytest.mark.parametrize("pixels", [28, 32, 48])
def test_shape_and_type(pixels):
    images = render_syn(LABELS[:5], pixels=pixels)
    assert (images.shape, images.dtype) == ((5, 3, pixels, pixels), torch.uint8)


@pytest.mark.parametrize("batch", [1, 7, 64])
def test_an_image_does_not_depend_on_its_batch(batch):
    together = render_syn(LABELS)
    index = torch.arange(300)
    some = torch.cat([render_syn(LABELS[i], index=i) for i in index[200 : 200 + 2 * batch].split(batch)])
    assert torch.equal(some, together[200 : 200 + 2 * batch])


def test_seed_and_index_matter():
    one = render_syn(torch.tensor([7]))
    assert not torch.equal(one, render_syn(torch.tensor([7]), seed=1))
    assert not torch.equal(one, render_syn(torch.tensor([7]), index=torch.tensor([1])))
    assert torch.equal(one, render_syn(torch.tensor([7]), index=torch.tensor([0])))


def features(images):
    """Grey images, their middle only, with bright strokes: what is at the border must not tell the digit."""
    grey = (images.float() * WEIGHTS).sum(1)
    border = torch.cat([grey[:, :, :3].flatten(1), grey[:, :, -3:].flatten(1)], 1).median(1).values
    middle = (grey - border.view(-1, 1, 1)).abs()[:, 3:-3, 7:-7].flatten(1)
    return (middle / middle.norm(dim=1, keepdim=True).clamp_min(1)).numpy()


def test_the_digit_can_be_recognised_by_its_middle():
    count = 6000
    labels = torch.arange(count) % 10
    images = render_syn(labels)
    compress = PCA(40, random_state=0).fit(features(images[:5000]))
    model = KNeighborsClassifier(5).fit(compress.transform(features(images[:5000])), labels[:5000])
    assert model.score(compress.transform(features(images[5000:])), labels[5000:]) > 0.8


def test_numbers_are_centred():
    strokes, _ = _numbers(LABELS, 64, Stream(0, "syn", torch.arange(300)))
    mass = strokes[:, 0]
    assert mass.flatten(1).amax(1).min() > 0.4  # every image has strokes
    # A neighbour pulls the centre of mass to its side, but over many images there are as many on either side.
    place = torch.arange(64) - 31.5
    assert abs((mass.sum((0, 1)) * place).sum() / mass.sum()) < 1.5
    assert abs((mass.sum((0, 2)) * place).sum() / mass.sum()) < 1.5


def test_ink_is_readable_on_both_tones():
    stream = Stream(0, "syn", torch.arange(2000))
    background, tones = _backgrounds(8, stream)
    ink = _readable(tones, stream)
    luminance = (background * WEIGHTS).sum(1)
    contrast = ((ink * WEIGHTS.flatten()).sum(1).view(-1, 1, 1) - luminance).abs()
    assert contrast.min() > 0.299
    darker = (ink.sum(1) < tones[:, 0].sum(1)).float().mean()
    assert 0.3 < darker < 0.7  # either polarity


def test_glyphs_of_all_fonts():
    tiles, widths = _glyphs()
    assert tiles.shape[:4] == (len(_FONTS), 10, 5, 2)
    sharp = tiles[:, :, 0, 0]
    assert sharp.amax((2, 3)).min() > 0.9
    assert ((widths > 0.4) & (widths < 1.1)).all()
    assert tiles[:, :, :, :, 0].max() < 0.01  # the blur fits into its square
    assert ((tiles[:, :, :, 1] - tiles[:, :, :, 0]) > -1e-5).all()  # a halo covers its digit
    ink = sharp > 0.5
    rows = ink.any(3).float().argmax(2) + 60 - ink.any(3).flip(2).float().argmax(2)
    assert ((rows - 60).abs() <= 2).all()  # centred
    flat = sharp.flatten(2)
    likeness = torch.einsum("fip,fjp->fij", flat, flat) / (flat.norm(dim=2)[:, :, None] * flat.norm(dim=2)[:, None])
    assert (likeness - torch.eye(10)).max() < 0.95  # ten different digits in each font


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (torch.tensor([10]), {}, "labels must be from 0 to 9, not 10"),
        (torch.tensor([1.0]), {}, r"labels must be int64 of shape \(N,\), not torch.float32"),
        (torch.tensor([1]), {"index": torch.arange(2)}, r"index must be int64 of shape \(1,\)"),
        (torch.tensor([1]), {"pixels": 4}, "pixels must be at least 8, not 4"),
    ],
)
def test_bad_input(labels, options, message):
    with pytest.raises(UserError, match=message):
        render_syn(labels, **options)


def test_missing_matplotlib_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=r'matplotlib.*pip install "xcnorm\[report\]"'):
        _font_folder()
