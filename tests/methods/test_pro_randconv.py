"""Pro-RandConv against its formulas, computed by hand."""

import math

import pytest
import torch
import torch.nn.functional as F
from scipy import stats

from tests.methods.test_warping import bilinear, noise
from xcnorm.errors import UserError
from xcnorm.methods.pro_randconv import ProRandConv, RandomBlock, deformed


def images(count=3, pixels=8):
    return 2 * torch.rand(count, 3, pixels, pixels, generator=torch.Generator().manual_seed(5)) - 1


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def view(method, given, source):
    return method.view(given, *method.draw_view(given.shape, source))


@pytest.mark.parametrize("size", [1, 3, 5])
def test_a_deformed_convolution_looks_beside_its_places(size):
    given, weight, offsets = noise(2, 3, 6, 7), noise(4, 3, size, size, seed=1), noise(2, size**2, 6, 7, seed=2)
    (found,) = deformed(given[None], weight[None], offsets[None])
    assert found.shape == (2, 4, 6, 7)
    for image, out, row, column in [(0, 0, 0, 0), (1, 3, 5, 6), (0, 2, 3, 3), (1, 1, 2, 0), (0, 1, 0, 5)]:
        expected = 0.0
        for tap in range(size**2):
            r = row + tap // size - size // 2 + offsets[0, tap, row, column].item()
            c = column + tap % size - size // 2 + offsets[1, tap, row, column].item()
            for channel in range(3):
                value = bilinear(given[image, channel], r, c, "zeros")
                expected += weight[out, channel, tap // size, tap % size].item() * value
        assert found[image, out, row, column].item() == pytest.approx(expected, abs=1e-11)


def test_without_offsets_it_is_a_convolution():
    given, weight = noise(2, 3, 6, 7), noise(3, 3, 3, 3, seed=1)
    expected = F.conv2d(given, weight, padding=1)
    torch.testing.assert_close(deformed(given[None], weight[None], torch.zeros(1, 2, 9, 6, 7).double())[0], expected)


def test_a_block_standardises_each_channel_of_each_image():
    given = noise(2, 3, 6, 7)
    block = RandomBlock(
        noise(1, 3, 3, 3, 3, seed=1), 0.2 * noise(1, 2, 9, 6, 7, seed=2), noise(1, 3, 1, 1, seed=3), noise(1, 3, 1, 1)
    )
    seen, found = deformed(given[None], block.weight, block.offsets)[0], block(given[None])[0]
    for image in range(2):
        for channel in range(3):
            plane = seen[image, channel]
            mean = plane.sum() / 42
            standard = (plane - mean) / ((plane - mean).square().sum() / 42 + 1e-6).sqrt()
            expected = (block.gain[0, channel] * standard + block.shift[0, channel]).tanh()
            torch.testing.assert_close(found[image, channel], expected)


def test_a_view_repeats_one_block_as_often_as_drawn():
    method, given, times = ProRandConv(repeats=4), images(), []
    for seed in range(60):
        source = generator(seed)
        block = RandomBlock.draw(method, given.shape, source)
        times.append(int(torch.randint(1, 5, (), generator=source)))
        expected = given[None]
        for _ in range(times[-1]):
            expected = block(expected)
        torch.testing.assert_close(view(method, given, generator(seed)), expected[0], rtol=1e-4, atol=1e-4)
    assert set(times) == {1, 2, 3, 4}


def test_draws_have_the_distributions_of_the_paper():
    method, source = ProRandConv(gain=0.5, shift=0.25), generator()
    blocks = [RandomBlock.draw(method, images(pixels=4).shape, source) for _ in range(1500)]
    middle = torch.stack([block.weight[..., 1, 1] for block in blocks]).flatten() * math.sqrt(27)
    assert stats.kstest(middle, "norm").pvalue > 1e-3  # the window is 1 there
    assert stats.kstest(torch.stack([block.gain for block in blocks]).flatten() / 0.5, "norm").pvalue > 1e-3
    assert stats.kstest(torch.stack([block.shift for block in blocks]).flatten() / 0.25, "norm").pvalue > 1e-3
    # At a distance of one pixel the window is exp(-1 / 2s²) with s even from 0 to 1: its mean square is known.
    edge = torch.stack([block.weight[..., 0, 1] for block in blocks]).double() * math.sqrt(27)
    widths = torch.linspace(1e-3, 1, 10_000, dtype=torch.float64)
    expected = (-1 / widths.square()).exp().mean().item()
    assert edge.square().mean().item() == pytest.approx(expected, rel=0.1)
    # A normal number with a deviation even from 0 to b has the variance b² / 3.
    offsets = torch.stack([block.offsets for block in blocks])
    assert offsets.square().mean().item() == pytest.approx(0.2**2 / 3, rel=0.1)
    deviations = offsets.flatten(1).std(1)
    assert stats.kstest(deviations / 0.2, "uniform").statistic < 0.05


def test_views_that_are_learned_from():
    given = images()
    first, second = ProRandConv().views_of(given, generator(3))
    assert first is given
    assert torch.equal(second, view(ProRandConv(), given, generator(3)))
    assert len(ProRandConv(original=False).views_of(given, generator())) == 1
    assert len(ProRandConv(original=False, consistency=1.0).views_of(given, generator())) == 2
    assert ProRandConv(repeats=0).views_of(given, generator()) == [given]


@pytest.mark.parametrize(
    ("option", "value", "wanted"),
    [
        ("kernel", 2, "must be an odd number from 1, not 2"),
        ("width", 0.0, "must be 0.001 or more, not 0.0"),
        ("repeats", -1, "must be 0 or more, not -1"),
        ("offsets", -0.5, "must be 0 or more, not -0.5"),
    ],
)
def test_settings_out_of_range_are_one_line(option, value, wanted):
    with pytest.raises(UserError, match=f"{option} of method pro_randconv {wanted}"):
        ProRandConv.check({option: value})
