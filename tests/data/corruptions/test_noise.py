"""Gaussian, shot, impulse and speckle noise."""

import pytest
import torch

from tests.data.corruptions import reference_noise as reference
from tests.data.corruptions.checks import SIZES, assert_like_reference
from xcnorm.data import corruptions

NAMES = ["gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise"]


@pytest.mark.parametrize("constants", SIZES)
@pytest.mark.parametrize("severity", range(1, 6))
@pytest.mark.parametrize("name", NAMES)
def test_like_reference(name, severity, constants):
    assert_like_reference(name, getattr(reference, name), severity, constants, share=0.0005)


@pytest.mark.parametrize("constants", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_more_variance_with_severity(name, constants):
    images = torch.full((16, 3, 32, 32), 120, dtype=torch.uint8)
    spread = [corruptions.corrupt(images, name, s, constants=constants).float().var().item() for s in range(1, 6)]
    assert spread == sorted(spread)
    assert spread[0] > 1


def test_shot_noise_is_poisson():
    images = torch.full((64, 3, 32, 32), 102, dtype=torch.uint8)  # 0.4
    values = corruptions.corrupt(images, "shot_noise", 5, constants="cifar").double() / 255
    count = (values * 50).round()
    assert abs(count.mean() - 20) < 0.05
    assert abs(count.var() - 20) < 0.3


@pytest.mark.parametrize("quantile", [0, 1 - 2**-24])
def test_shot_noise_at_the_ends_of_its_range(quantile):
    level = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16).expand(1, 3, 16, 16)
    fields = {"quantile": torch.full((1, 3, 16, 16), quantile)}
    result = corruptions.apply(level, "shot_noise", 1, fields, constants="cifar").double()
    off = (result - level) * (1 if quantile else -1)
    deviation = 255 * (level / 255 / 500).sqrt()
    assert (off >= torch.minimum(4 * deviation, 255 - level if quantile else level).floor()).all()
    assert (off <= 8 * deviation + 1).all()


def test_impulse_noise_loses_equal_shares_to_white_and_black():
    images = torch.full((64, 3, 32, 32), 102, dtype=torch.uint8)
    values = corruptions.corrupt(images, "impulse_noise", 5, constants="imagenet")
    assert abs((values == 255).double().mean() - 0.135) < 0.005
    assert abs((values == 0).double().mean() - 0.135) < 0.005
    assert ((values == 102) | (values == 255) | (values == 0)).all()


def test_speckle_noise_spares_black_and_grows_with_brightness():
    images = torch.arange(0, 121, 40, dtype=torch.uint8).view(1, 1, 4, 1).expand(64, 3, 4, 64)
    spread = corruptions.corrupt(images, "speckle_noise", 5, constants="cifar").double().std((0, 1, 3))
    assert spread[0] == 0
    torch.testing.assert_close(spread[1:], torch.tensor([8.0, 16, 24], dtype=torch.float64), rtol=0.03, atol=0)
