"""The controls: what they do to a picture, and which values they take."""

import pytest
import torch

from xcnorm.data.corruptions import corrupt
from xcnorm.data.synthesis import invert
from xcnorm.errors import UserError
from xcnorm.playground.answering import backdrop
from xcnorm.playground.controls import CONTROLS, PRESETS, change, settings

PICTURE = torch.randint(0, 256, (1, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def photograph():
    return backdrop(32)


def test_at_rest_the_picture_is_as_it_was(photograph):
    assert torch.equal(change(PICTURE, settings({}), photograph), PICTURE)


@pytest.mark.parametrize("name", CONTROLS)
def test_every_end_of_every_control_but_rest_changes_the_picture(name, photograph):
    control = CONTROLS[name]
    for end in {control.low, control.high} - {control.rest}:
        changed = change(PICTURE, settings({name: end}), photograph)
        assert changed.shape == PICTURE.shape
        assert changed.dtype == torch.uint8
        assert not torch.equal(changed, PICTURE)
        assert torch.equal(changed, change(PICTURE, settings({name: end}), photograph))


def test_inversion_to_the_end_is_the_negative(photograph):
    assert torch.equal(change(PICTURE, settings({"inversion": 100}), photograph), invert(PICTURE))


@pytest.mark.parametrize(
    ("name", "value", "corruption", "severity"),
    [("contrast", 75, "contrast", 1), ("contrast", 15, "contrast", 5), ("brightness", 30, "brightness", 5)],
)
def test_light_is_that_of_the_corruptions(name, value, corruption, severity, photograph):
    ours = change(PICTURE, settings({name: value}), photograph)
    theirs = corrupt(PICTURE, corruption, severity)
    assert (ours.short() - theirs.short()).abs().max() <= 1  # published files are cut off to 8 bits, not rounded


def test_a_background_is_what_mnist_m_is_made_of(photograph):
    ours = change(PICTURE, settings({"background": 100}), photograph)
    assert (ours.short() - (photograph.short() - PICTURE.short()).abs()).abs().max() <= 1


def test_hue_leaves_grey_alone_and_tint_gives_it_one(photograph):
    grey = PICTURE[:, :1].expand(-1, 3, -1, -1)
    assert torch.equal(change(grey, settings({"hue": 90}), photograph), grey)
    red, green, blue = change(grey, settings({"tint": 100}), photograph)[0]
    assert torch.equal(red, grey[0, 0])
    assert not green.any()
    assert not blue.any()
    turned = change(grey, settings({"tint": 100, "hue": 120}), photograph)[0]
    assert torch.equal(turned[1], grey[0, 0])


def test_presets_are_values_of_controls():
    for changes in PRESETS.values():
        assert settings(changes) != settings({})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"blurr": 1}, "did you mean 'blur'"),
        ({"blur": -1}, "blur must be a number from 0 to 15"),
        ({"blur": float("nan")}, "blur must be a number"),
        ({"blur": True}, "blur must be a number"),
        ({"blur": "3"}, "blur must be a number"),
        ({"blur": 10**400}, "blur must be a number"),
        ({"<script>": 1}, "unknown control"),
    ],
)
def test_what_no_slider_has_is_refused(given, words):
    with pytest.raises(UserError, match=words):
        settings(given)


@pytest.mark.parametrize("pixels", [16, 32, 600])
def test_a_backdrop_has_the_size_that_is_asked_for(pixels):
    assert backdrop(pixels).shape == (1, 3, pixels, pixels)
    assert backdrop(pixels).float().std() > 5
