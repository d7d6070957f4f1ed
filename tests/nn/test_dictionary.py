"""Dictionaries against the formulas of their docstring, one feature at a time in float64."""

import copy
import io
import itertools
import math

import pytest
import torch
from torch import nn

from xcnorm.nn import Dictionary, Rebuilt
from xcnorm.nn.dictionary import invert_, regress, worst_rebuilt


def dictionary(channels=6, dtype=torch.float64, **options):
    torch.manual_seed(0)
    return Dictionary(channels, **{"words": 12, "chosen": 4, **options}, dtype=dtype)


def features(*shape, seed=1, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def rebuilt_by_hand(layer, feature):
    """Sorted similarities, and the minimum of the penalised squares from stacked least squares."""
    lengths = feature.norm() * layer.words.norm(dim=1)
    cosine = (layer.words @ feature) / lengths
    chosen = cosine.argsort(descending=True)[: layer.chosen]
    weight = torch.exp(cosine[chosen] / layer.temperature)
    weight = weight / weight.sum()
    penalty = (layer.ridge / (layer.chosen * weight)).sqrt().diag()
    left = torch.cat([layer.words[chosen].t(), penalty])
    right = torch.cat([feature, torch.zeros(layer.chosen, dtype=feature.dtype)])
    code = torch.linalg.lstsq(left, right[:, None]).solution[:, 0]
    return chosen, code, layer.words[chosen].t() @ code


@pytest.mark.parametrize("options", [{}, {"chosen": 1}, {"chosen": 12}, {"ridge": 1.0, "temperature": 0.5}])
def test_a_feature_is_the_best_combination_of_the_words_most_like_it(options):
    layer, given = dictionary(**options).eval(), features(2, 6, 3, 2)
    output = layer(given)
    codes = layer.encode(given.movedim(1, -1).reshape(-1, 6), layer.words).view(2, 3, 2, 12)
    for image in range(2):
        for row in range(3):
            for column in range(2):
                chosen, code, expected = rebuilt_by_hand(layer, given[image, :, row, column])
                torch.testing.assert_close(output[image, :, row, column], expected, rtol=1e-10, atol=1e-12)
                found = codes[image, row, column]
                assert found.count_nonzero() == layer.chosen
                torch.testing.assert_close(found[chosen], code, rtol=1e-9, atol=1e-12)


def test_at_a_high_temperature_it_is_plain_ridge_regression():
    layer, given = dictionary(temperature=1e9).eval(), features(5, 6)
    for feature, output in zip(given, layer(given), strict=True):
        words = layer.words[(layer.words @ feature).topk(4).indices]
        code = torch.linalg.solve(words @ words.t() + 0.01 * torch.eye(4, dtype=torch.float64), words @ feature)
        torch.testing.assert_close(output, words.t() @ code, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("shape", [(5, 6), (5, 6, 4), (2, 6, 3, 4), (2, 6, 2, 3, 2)])
def test_any_number_of_position_axes(shape):
    layer, given = dictionary().eval(), features(*shape)
    output = layer(given)
    flat = layer(given.movedim(1, -1).reshape(-1, 6))
    torch.testing.assert_close(output.movedim(1, -1).reshape(-1, 6), flat, rtol=0, atol=1e-14)
    assert output.shape == shape


def test_a_feature_twice_as_long_is_rebuilt_twice_as_long():
    layer, given = dictionary().eval(), features(9, 6)
    torch.testing.assert_close(layer(3 * given), 3 * layer(given))


def test_what_no_word_resembles_is_lost():
    """Words of the first three channels, features of all six."""
    layer = dictionary(ridge=1e-9, chosen=3, words=3).eval()
    layer.words.copy_(torch.eye(6, dtype=torch.float64)[:3])
    given = features(4, 6)
    torch.testing.assert_close(layer(given)[:, :3], given[:, :3], rtol=1e-4, atol=1e-4)
    assert (layer(given)[:, 3:] == 0).all()


def test_the_gradient_is_that_of_the_map_with_its_choice_held():
    layer, given = dictionary().eval(), features(7, 6).requires_grad_()
    upstream = features(7, 6, seed=2)
    layer(given).backward(upstream)
    for feature, gradient, up in zip(given.detach(), given.grad, upstream, strict=True):
        chosen, _, _ = rebuilt_by_hand(layer, feature)
        words = layer.words[chosen]
        weight = ((words @ feature) / (feature.norm() * layer.temperature)).softmax(0)
        matrix = words @ words.t() + (layer.ridge / (4 * weight)).diag()
        expected = words.t() @ torch.linalg.solve(matrix, words @ up)
        torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_a_share_of_the_feature_is_replaced(share):
    layer, given = dictionary(share=share).eval(), features(5, 6)
    whole = copy.deepcopy(layer)
    whole.share = 1.0
    torch.testing.assert_close(layer(given), share * whole(given) + (1 - share) * given)


def test_elimination_inverts():
    root = features(50, 8, 8)
    matrices = root @ root.mT + 0.01 * torch.eye(8, dtype=torch.float64)
    inverse = invert_(matrices.permute(1, 2, 0).contiguous()).permute(2, 0, 1)
    torch.testing.assert_close(inverse, torch.linalg.inv(matrices), rtol=1e-6, atol=1e-8)


def regression(samples=400):
    code = features(samples, 5) * (features(samples, 5, seed=3) > 0)
    target = code @ features(5, 6, seed=4) + 0.1 * features(samples, 6, seed=5)
    return code, target, code.t() @ code / samples, code.t() @ target / samples


def test_regression_arrives_at_the_least_squares_solution_and_never_goes_back():
    code, target, moment, cross = regression()
    words, errors = features(5, 6, seed=6), []
    for _ in range(60):
        errors.append((target - code @ words).square().sum().item())
        words = regress(words, moment, cross, 5)
    assert all(after <= before * (1 + 1e-12) for before, after in itertools.pairwise(errors))
    torch.testing.assert_close(words, torch.linalg.lstsq(code, target).solution, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(regress(words, moment, cross, 1), words, rtol=1e-8, atol=1e-10)


def test_words_that_no_code_uses_stay_as_they_are():
    _, _, moment, cross = regression()
    moment[2], moment[:, 2], cross[2] = 0, 0, 0
    words = features(5, 6, seed=6)
    assert torch.equal(regress(words, moment, cross)[2], words[2])


def from_few_directions(batch, seed):
    """Features that are combinations of two neighbours out of ten fixed directions."""
    directions = nn.functional.normalize(features(10, 16, seed=99), dim=1)
    generator = torch.Generator().manual_seed(seed)
    first = torch.randint(10, (batch,), generator=generator)
    amount = torch.rand(batch, 2, 1, generator=generator, dtype=torch.float64) + 0.5
    return amount[:, 0] * directions[first] + amount[:, 1] * directions[(first + 1) % 10]


def test_words_learn_what_features_are_made_of():
    layer = dictionary(16, words=16, chosen=2, momentum=0.05)

    def error():
        given = from_few_directions(500, 1000)
        return ((layer.eval()(given) - given).square().sum() / given.square().sum()).item()

    found = [error()]
    for batches in (range(1), range(1, 200)):
        for batch in batches:
            layer.train()(from_few_directions(200, batch))
        found.append(error())
    assert found[0] > 0.5  # with random words
    assert found[2] < 0.5 * found[1] < 0.25  # with those of the first batch, and learned ones
    torch.testing.assert_close(layer.words.norm(dim=1), torch.ones(16, dtype=torch.float64))


def test_the_first_words_are_features_of_the_first_batch():
    layer, given = dictionary(), features(60, 6)
    random = layer.words.clone()
    layer(given)
    units = nn.functional.normalize(given, dim=1)
    assert torch.isclose(layer.words @ units.t(), torch.ones((), dtype=torch.float64)).any(1).all()
    assert not torch.isclose(layer.words, random).any()
    assert len(layer.words.unique(dim=0)) == 12
    assert layer.num_batches_tracked == 1


def test_moving_averages_are_those_of_the_codes():
    """After the first batch, whose words stand for themselves with the mean energy; only regression moves them then."""
    layer, first, second = dictionary(momentum=0.2), features(60, 6), features(40, 6, seed=2)
    layer(first)
    words, moment, cross = layer.words.clone(), layer.code_moment.clone(), layer.cross_moment.clone()
    energy = moment.diagonal().clone()
    torch.testing.assert_close(moment, energy[0] * torch.eye(12, dtype=torch.float64))
    torch.testing.assert_close(cross, energy[0] * words)
    unit = nn.functional.normalize(second, dim=1)
    code = layer.encode(unit, words)
    moment = 0.8 * moment + 0.2 * torch.stack([torch.outer(b, b) for b in code]).mean(0)
    cross = 0.8 * cross + 0.2 * torch.stack([torch.outer(b, z) for b, z in zip(code, unit, strict=True)]).mean(0)
    expected = regress(words, moment, cross)
    length = expected.norm(dim=1)
    layer(second)
    assert (layer.code_moment.diagonal() > 0.01 * layer.code_moment.diagonal().mean()).all()  # nobody died
    torch.testing.assert_close(layer.words, expected / length[:, None])
    torch.testing.assert_close(layer.code_moment, moment * torch.outer(length, length))
    torch.testing.assert_close(layer.cross_moment, cross * length[:, None])


def test_a_dead_word_is_replaced_by_the_feature_rebuilt_worst_and_the_others_are_not():
    layer, directions = dictionary(8, words=8, chosen=2), torch.eye(8, dtype=torch.float64)
    layer.words.copy_(directions)
    layer.words[7] = directions[6]  # nothing can be rebuilt in direction 7
    layer.code_moment.copy_(torch.ones(8, dtype=torch.float64).diag() * 0.1)
    layer.code_moment[7, 7] = 1e-4
    layer.cross_moment.copy_(layer.code_moment @ layer.words)
    layer.num_batches_tracked.fill_(1)
    given = directions[torch.arange(64) % 6].clone()
    given[41] = 3 * directions[7] + 0.1 * directions[6]
    given[3] = 2 * directions[7]
    layer(given)
    torch.testing.assert_close(layer.words[7], nn.functional.normalize(given[41], dim=0))
    torch.testing.assert_close(layer.words[:7], directions[:7], rtol=0, atol=1e-2)
    assert layer.code_moment[7].count_nonzero() == layer.code_moment[:, 7].count_nonzero() == 1
    torch.testing.assert_close(layer.code_moment[7, 7], layer.code_moment.diagonal()[:7].sum() / 8, rtol=1e-3, atol=0)
    torch.testing.assert_close(layer.cross_moment[7], layer.code_moment[7, 7] * layer.words[7])
    kept = layer.words[7].clone()
    layer(directions[torch.arange(64) % 6])  # hardly used now, but it has time
    torch.testing.assert_close(layer.words[7], kept)


def test_the_worst_rebuilt_of_every_part():
    given, made = features(10, 6), features(10, 6, seed=2)
    error = (given - made).square().sum(1)
    expected = [max(range(start, start + 3), key=lambda i: error[i]) for start in (0, 3, 6)]
    found = worst_rebuilt(given, made, 3)
    torch.testing.assert_close(found, torch.cat([given[expected], error[expected, None]], 1))
    few = worst_rebuilt(given[:2], made[:2], 3)
    torch.testing.assert_close(few[:2, :-1], given[:2])
    assert (few[2] == 0).all()
    assert torch.equal(worst_rebuilt(given[:0], made[:0], 3), torch.zeros(3, 7, dtype=torch.float64))
    for few in (0, 10):
        assert worst_rebuilt(given[:few], made[:few], 0).shape == (0, 7)


def test_evaluation_changes_nothing_and_training_everything():
    layer, given = dictionary(), features(30, 6)
    before = copy.deepcopy(layer.state_dict())
    layer.eval()(given)
    torch.testing.assert_close(layer.state_dict(), before, rtol=0, atol=0)
    layer.train()(given)
    assert all(not torch.equal(value, before[name]) for name, value in layer.state_dict().items())


@pytest.mark.parametrize("batches", [0, 1])
def test_an_empty_batch_changes_nothing(batches):
    layer = dictionary()
    for _ in range(batches):
        layer(features(30, 6))
    before = copy.deepcopy(layer.state_dict())
    assert layer(features(0, 6, 4, 4)).shape == (0, 6, 4, 4)
    torch.testing.assert_close(layer.state_dict(), before, rtol=0, atol=0)


def test_no_gradient_reaches_the_dictionary_and_backward_works_after_it_has_moved():
    layer, given = dictionary(), features(30, 6).requires_grad_()
    words = layer.words.clone()
    expected = torch.autograd.grad(copy.deepcopy(layer).eval()(given).sum(), given)
    output = layer(given)
    assert not torch.equal(layer.words, words)
    torch.testing.assert_close(torch.autograd.grad(output.sum(), given), expected, rtol=0, atol=0)
    assert not list(layer.parameters())


def test_the_state_goes_through_a_file():
    layer, given = dictionary(), features(30, 6)
    layer(given)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other = dictionary()
    other.load_state_dict(torch.load(file))
    layer(given)
    other(given)
    torch.testing.assert_close(other.state_dict(), layer.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("given", [torch.zeros(3, 6, 4, 4), torch.ones(3, 6, 4, 4), 1e-20 * torch.ones(3, 6, 4, 4)])
def test_flat_maps_stay_finite(given):
    layer = dictionary(dtype=torch.float32)
    given = given.requires_grad_()
    for _ in range(5):
        output = layer(given)
        output.sum().backward()
    assert output.isfinite().all()
    assert given.grad.isfinite().all()
    assert all(value.isfinite().all() for value in layer.state_dict().values())
    torch.testing.assert_close(layer.words.norm(dim=1), torch.ones(12))


def test_a_very_low_temperature_leaves_the_most_similar_word():
    layer, given = dictionary(dtype=torch.float32, temperature=1e-4).eval(), features(20, 6, dtype=torch.float32)
    words = layer.words[(given @ layer.words.t()).argmax(1)]
    expected = (given * words).sum(1, keepdim=True) * words / (1 + 0.01 / 4)
    torch.testing.assert_close(layer(given), expected, rtol=1e-3, atol=1e-3)


def test_it_can_be_compiled():
    expected, given = dictionary(), features(30, 6)
    actual = copy.deepcopy(expected)
    compiled = torch.compile(actual, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(given), expected(given))
    torch.testing.assert_close(actual.state_dict(), expected.state_dict())


def test_fewer_features_than_words():
    layer = dictionary()
    for seed in range(5):
        assert layer(features(2, 6, seed=seed)).isfinite().all()
    assert layer.words.isfinite().all()


def test_float32_is_close_to_float64():
    exact, given = dictionary(32, words=64, chosen=8), features(4, 32, 8, 8)
    single = copy.deepcopy(exact).float()
    for _ in range(3):
        expected, actual = exact(given), single(given.float())
    torch.testing.assert_close(actual.double(), expected, rtol=1e-3, atol=1e-3)


def test_under_autocast_statistics_are_in_full_precision():
    layer = dictionary(dtype=torch.float32)
    given = features(4, 6, 5, 5).bfloat16()
    expected = copy.deepcopy(layer)
    whole = expected(given.float())
    with torch.autocast("cpu", torch.bfloat16):
        output = layer(given)
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output.float(), whole, rtol=2**-7, atol=2**-7)
    torch.testing.assert_close(layer.state_dict(), expected.state_dict(), rtol=0, atol=0)


def test_a_layer_with_a_dictionary_is_one_after_the_other():
    layer = Rebuilt(nn.Conv2d(3, 6, 3), dictionary(dtype=torch.float32)).eval()
    images = torch.rand(2, 3, 8, 8)
    assert torch.equal(layer(images), layer.dictionary(layer.layer(images)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"chosen": 0}, "chosen must be between 1 and words=12, got 0"),
        ({"chosen": 13}, "chosen must be between 1 and words=12, got 13"),
        ({"temperature": 0.0}, "temperature must be positive, got 0.0"),
        ({"ridge": -1.0}, "ridge must be positive, got -1.0"),
        ({"ridge": math.nan}, "ridge must be positive, got nan"),
        ({"momentum": 0.0}, "momentum must be above 0 and at most 1, got 0.0"),
        ({"share": 1.5}, "share must be between 0 and 1, got 1.5"),
    ],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        dictionary(**options)
