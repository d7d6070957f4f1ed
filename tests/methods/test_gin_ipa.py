"""GIN and IPA against their formulas, computed by hand."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import stats
from scipy.interpolate import BSpline

from xcnorm.errors import UserError
from xcnorm.methods.gin_ipa import GinIpa, convolved, spline_weights


def images(count=5, height=12, width=10):
    generator = torch.Generator().manual_seed(5)
    return torch.randn(count, 3, height, width, generator=generator, dtype=torch.float64)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def changed(method, given, source):
    return method.changed(given, *(each.to(given) for each in method.draw_network(given.shape, source)))


def blended(method, given, source):
    """Two images of networks, and the map that blends them."""
    one, other = (changed(method, given, source) for _ in range(2))
    points = normal(source, len(given), 1, 7, 7)
    return one, other, method.maps(points, *given.shape[2:])


def normal(source, *shape):
    return torch.randn(*shape, generator=source).double()


def by_hand(given, source, layers=4):
    """One image after the other through its own network."""
    values, inputs = list(given), 3
    for layer in range(layers):
        outputs = 3 if layer == layers - 1 else 2
        size = (1, 3)[int(torch.randint(2, (), generator=source))]
        weights, shifts = normal(source, len(given), outputs, inputs, size, size), normal(source, len(given), outputs)
        for image, value in enumerate(values):
            value = F.conv2d(value[None], weights[image], shifts[image], padding=size // 2)[0]
            values[image] = torch.where(value < 0, 0.01 * value, value) if layer < layers - 1 else value
        inputs = outputs
    share = torch.rand(len(given), 1, 1, 1, generator=source).double()
    mixed = share * torch.stack(values) + (1 - share) * given
    before, after = (each.square().sum((1, 2, 3), keepdim=True).sqrt() for each in (given, mixed))
    return mixed * before / (after + 1e-5)


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_each_image_is_mixed_with_what_its_own_network_makes_of_it(layers):
    for seed in range(5):
        found = changed(GinIpa(layers=layers), images(), generator(seed))
        torch.testing.assert_close(found, by_hand(images(), generator(seed), layers))


def test_the_frobenius_norm_stays():
    found, given = changed(GinIpa(), images(), generator()), images()
    for before, after in zip(given, found, strict=True):
        assert np.linalg.norm(after.flatten()) == pytest.approx(np.linalg.norm(before.flatten()), rel=1e-4)
    assert not torch.allclose(found, given, atol=0.1)


def test_every_image_has_weights_of_its_own():
    given, weights = images(), torch.randn(5, 4, 3, 3, 3, generator=generator(), dtype=torch.float64)
    expected = [F.conv2d(image[None], weight, padding=1) for image, weight in zip(given, weights, strict=True)]
    torch.testing.assert_close(convolved(given, weights), torch.cat(expected))


@pytest.mark.parametrize("degree", [2, 3])
def test_maps_are_uniform_b_splines(degree):
    found = spline_weights(22, 4, degree)
    knots = np.arange(degree + 2) - (degree + 1) / 2
    basis = BSpline.basis_element(knots, extrapolate=False)
    away = ((np.arange(22) + 0.5) * 4 / 22)[:, None] - np.arange(-1, 6)
    np.testing.assert_allclose(found, np.nan_to_num(basis(away)), atol=1e-6)
    torch.testing.assert_close(found.sum(1), torch.ones(22))


def test_maps_are_smooth_and_reach_from_0_to_1():
    points = normal(generator(), 200, 1, 7, 7)
    found = GinIpa().maps(points, 32, 24)
    assert found.shape == (200, 1, 32, 24)
    torch.testing.assert_close(found.amin((1, 2, 3)), torch.zeros(200).double())
    torch.testing.assert_close(found.amax((1, 2, 3)), torch.ones(200).double())
    assert found.diff(dim=2).abs().max() < 0.3
    field = spline_weights(32, 4, 3).double() @ points @ spline_weights(24, 4, 3).double().T
    shown = torch.stack([found.flatten(1), field.flatten(1)])
    for one, other in shown.unbind(1):
        assert stats.pearsonr(one, other).statistic == pytest.approx(1.0)


def test_the_views_are_blended_by_a_map_and_by_its_opposite():
    one, other, share = blended(GinIpa(), images(), generator(4))
    first, second = GinIpa().views_of(images(), generator(4))
    torch.testing.assert_close(first, one * share + other * (1 - share))
    torch.testing.assert_close(second, one * (1 - share) + other * share)
    plain = GinIpa(patches=0).views_of(images(), generator(4))
    torch.testing.assert_close(plain, [one, other])


def test_views_by_form():
    given = images()
    assert [GinIpa().learned, len(GinIpa().views_of(given, generator()))] == [2, 2]
    assert len(GinIpa(consistency=0.0).views_of(given, generator())) == 2
    released = GinIpa(form="released")
    assert [released.learned, len(released.views_of(given, generator()))] == [1, 3]
    third = [changed(released, given, source := generator()), *(changed(released, given, source) for _ in range(2))][2]
    assert torch.equal(released.views_of(given, generator())[2], third)
    assert GinIpa(layers=0).views_of(given, generator()) == [given]


def test_the_divergence_of_either_form():
    answers = [torch.randn(6, 4, dtype=torch.float64, generator=generator(seed)) for seed in range(3)]
    odds = [answer.softmax(1).numpy() for answer in answers]
    expected = stats.entropy(odds[0], odds[1], axis=1).mean()
    assert GinIpa().disagreement(answers[:2]).item() == pytest.approx(expected, rel=1e-9)
    expected = np.mean([stats.entropy(sum(odds) / 3, one, axis=1) for one in odds])
    assert GinIpa(form="released").disagreement(answers).item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("form", ["paper", "released"])
def test_certain_answers_give_finite_gradients(form):
    one = torch.tensor([[99.0, -99.0, -99.0]], requires_grad=True)
    loss = GinIpa(form=form).disagreement([one, torch.tensor([[-99.0, 99.0, -99.0]])])
    loss.backward()
    assert math.isfinite(loss.item())
    assert one.grad.isfinite().all()


@pytest.mark.parametrize(
    ("option", "value", "wanted"),
    [
        ("kernels", [2], "must be odd numbers"),
        ("channels", 0, "must be 1 or more, not 0"),
        ("layers", -1, "must be 0 or more, not -1"),
        ("form", "old", "must be 'paper' or 'released', not 'old'"),
        ("consistency", -1.0, "must be 0 or more, not -1.0"),
    ],
)
def test_settings_out_of_range_are_one_line(option, value, wanted):
    with pytest.raises(UserError, match=f"{option} of method gin_ipa {wanted}"):
        GinIpa.check({option: value})
