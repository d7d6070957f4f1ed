"""PRIME's primitives against direct computations, and their draws against the distributions of maximal entropy."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.signal import convolve2d

from xcnorm.data.streams import Stream
from xcnorm.errors import UserError
from xcnorm.methods.prime import Prime, filtered, recoloured, smooth_fields, temperatures
from xcnorm.methods.warping import sampled

SMALL = {"waves": 10, "modes": [2, 8]}


def pictures(count=6, height=9, width=9):
    generator = torch.Generator().manual_seed(5)
    return torch.rand(count, 3, height, width, generator=generator, dtype=torch.float64)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def turn(method, given, seed=0):
    """The numbers of an operation on each picture: which, 0 a filter, 1 the warp, 2 a curve; and those of each."""
    return method.draw_turn(given.shape, 1, generator(seed))


def operated(method, given, seed=0):
    """What becomes of the pictures, and which operation each went through."""
    numbers = turn(method, given, seed)
    return method.operate(given, torch.ones(len(given), dtype=torch.bool), *numbers), numbers[0][:, 0]


@pytest.mark.parametrize("size", [1, 3, 5])
def test_a_filter_is_a_convolution_of_every_channel(size):
    given, kernels = pictures(), torch.randn(6, size, size, generator=generator(), dtype=torch.float64)
    found = filtered(given, kernels)
    for picture, kernel, seen in zip(given.numpy(), kernels.numpy(), found.numpy(), strict=True):
        for channel in range(3):
            expected = convolve2d(picture[channel], kernel[::-1, ::-1], "same").clip(0, 1)
            np.testing.assert_allclose(seen[channel], expected, atol=1e-12)


def test_a_curve_adds_sines():
    """To a tenth of one of 256 levels, by a table."""
    given = pictures(height=20, width=20)
    heights = 0.1 * torch.randn(6, 3, 100, generator=generator(), dtype=torch.float64)
    wave = torch.arange(1, 101, dtype=torch.float64)
    sines = (math.pi * wave * given[..., None]).sin()
    expected = (given + (heights[:, :, None, None] * sines).sum(-1)).clamp(0, 1)
    found = recoloured(given, heights)
    assert (found - expected).abs().max() < 0.1 / 255
    ends = torch.tensor([0.0, 1.0]).double().expand(6, 3, 1, 2)
    torch.testing.assert_close(recoloured(ends, heights), ends)  # black and white stay


def test_a_field_has_modes_of_the_variance_of_the_paper():
    """Seen by their orthogonality: 1 / (i² + j²) up to the cut, and nothing beyond."""
    normal = torch.randn(1, 4000, 8, 8, generator=generator(), dtype=torch.float64)
    (fields,) = smooth_fields(normal, torch.tensor([4]), 33, 17)
    modes = torch.arange(1, 9, dtype=torch.float64)
    down, across = ((math.pi * torch.linspace(0, 1, size).double()[:, None] * modes).sin() for size in (33, 17))
    heights = (down.mT @ fields @ across) / (16 * 8)
    squared = modes[:, None].square() + modes.square()
    inside = squared.sqrt() < 4.5
    assert heights[:, ~inside].abs().max() < 1e-5
    standard = (heights * squared.sqrt())[:, inside]
    assert stats.kstest(standard.flatten().numpy(), "norm").pvalue > 1e-3
    assert standard.var(0).tolist() == pytest.approx([1.0] * int(inside.sum()), rel=0.12)
    assert fields[:, 0].abs().max() < 1e-5  # nothing moves at the edge


def test_the_slightest_warp_moves_by_half_a_pixel():
    for size, cut in ((32, 3), (32, 10), (224, 50)):
        slight, strong = (float(each) for each in temperatures(size, torch.tensor(cut).double()))
        assert size * math.sqrt(math.pi * slight * math.log(cut)) / 2 == pytest.approx(0.5)
        assert strong == pytest.approx(4 / (math.pi**3 * cut**2 * math.log(cut)))


def test_a_displacement_is_a_field_at_a_random_temperature():
    """Of several batches at once; the sums end at a frequency that is drawn as well."""
    method, cuts, warmths = Prime(modes=(2, 9)), [], []
    drawn = [turn(method, pictures(1), seed)[-2:] for seed in range(400)]
    ends, modes = (torch.cat(each) for each in zip(*drawn, strict=True))
    found = method.displacements(16, 12, ends, modes)
    for batch, numbers in enumerate(ends.double().tolist()):
        most, warmth = (math.sin(math.pi / 2 * number) ** 2 for number in numbers)
        cuts.append(min(2 + int(most * 8), 9))
        warmths.append(warmth)
        own = modes[batch, :, : cuts[-1], : cuts[-1]]
        assert own.all()
        assert modes[batch].count_nonzero() == own.numel()
        slight, strong = (float(each) for each in temperatures(16, torch.tensor(cuts[-1]).double()))
        heat = math.sqrt(slight + warmth * (max(slight, strong) - slight))
        frequency = torch.arange(1.0, cuts[-1] + 1)
        inside = (frequency[:, None].square() + frequency.square()).sqrt() < cuts[-1] + 0.5
        (field,) = smooth_fields((own * inside)[None], torch.tensor([99]), 16, 12)
        torch.testing.assert_close(found[batch], heat * field * torch.tensor([[[16.0]], [[12.0]]]))
    assert stats.kstest(warmths, stats.beta(0.5, 0.5).cdf).pvalue > 1e-3
    assert set(cuts) == set(range(2, 10))


def test_draws_are_normal():
    """A curve of one sine at a half shows its height, a filter of one weight its noise; black stays by both."""
    count = 6000
    grey = torch.full((count, 1, 2, 2), 0.5, dtype=torch.float64)
    found, own = operated(Prime(waves=1, kernel=1, noise=0.1, variance=0.0025), grey)
    assert stats.chisquare(np.bincount(own)).pvalue > 1e-3
    found = found[:, 0, 0, 0] - 0.5
    assert stats.kstest(found[own == 2] / 0.05, "norm").pvalue > 1e-3
    assert stats.kstest(found[own == 0] / 0.05, "norm").pvalue > 1e-3  # half of 0.1


def test_each_picture_goes_through_what_was_drawn_for_it():
    given, method = pictures(60), Prime()
    found, own = operated(method, given, 3)
    _, weights, keys, ends, modes = turn(method, given, 3)
    weights = 4 * weights.double().view(-1, 3, 3)
    weights[:, 1, 1] += 1
    heights = 0.1 * Stream(0, "prime", keys[:, 0]).normal(3, 100).double()
    ((down, across),) = method.displacements(9, 9, ends, modes.double())
    pixels = torch.arange(9.0)
    torch.testing.assert_close(found[own == 0], filtered(given, weights)[own == 0], rtol=0, atol=1e-5)
    warped = sampled(given, pixels[:, None] - down, pixels - across, "border")
    torch.testing.assert_close(found[own == 1], warped[own == 1])
    torch.testing.assert_close(found[own == 2], recoloured(given, heights)[own == 2], rtol=0, atol=1e-5)


def test_a_filter_without_noise_changes_nothing_or_shifts_as_the_published_program():
    given = pictures(60)
    found, own = operated(Prime(noise=0.0), given)
    torch.testing.assert_close(found[own == 0], given[own == 0])
    shifted = torch.zeros_like(given)
    shifted[..., :-1, :-1] = given[..., 1:, 1:]
    found, _ = operated(Prime(noise=0.0, delta="released"), given)
    torch.testing.assert_close(found[own == 0], shifted[own == 0])


def test_pictures_that_have_no_turn_stay_as_they_are():
    given = pictures()
    active = torch.arange(6) % 2 == 0
    found = Prime().operate(given, active, *turn(Prime(), given))
    assert torch.equal(found[1::2], given[1::2])
    assert not torch.equal(found[::2], given[::2])


@pytest.mark.parametrize(
    ("option", "value", "wanted"),
    [
        ("kernel", 2, "must be an odd number from 1, not 2"),
        ("delta", "left", "must be 'paper' or 'released', not 'left'"),
        ("waves", 0, "must be 1 or more, not 0"),
        ("modes", [1, 100], "must be two rising whole numbers from 2"),
        ("modes", [9, 3], "must be two rising whole numbers from 2"),
        ("noise", -1.0, "must be 0 or more, not -1.0"),
        ("chains", -1, "must be 0 or more, not -1"),
    ],
)
def test_settings_out_of_range_are_one_line(option, value, wanted):
    with pytest.raises(UserError, match=f"{option} of method prime {wanted}"):
        Prime.check({option: value})
