"""RandConv against its formulas."""

import math

import pytest
import torch
import torch.nn.functional as F

from xcnorm.methods.augmentation import disagreement
from xcnorm.methods.randconv import RandConv


def images(count=4, pixels=9):
    return torch.randn(count, 3, pixels, pixels, generator=torch.Generator().manual_seed(5))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def view(method, given, source):
    return method.view(given, *method.draw_view(given.shape, source))


@pytest.mark.parametrize("size", [1, 3, 5, 7])
def test_kernels_are_normal_with_the_deviation_of_the_paper(size):
    """A single bright pixel shows the kernel that it was seen through."""
    method, source = RandConv(kernels=(size,), mix=False), generator()
    pixel = torch.zeros(3, 3, 9, 9)
    pixel[range(3), range(3), 4, 4] = 1.0  # in the first image in red, in the second in green, in the third in blue
    seen = torch.stack([view(method, pixel, source) for _ in range(60_000 // (9 * size**2))])
    half = size // 2
    kernels = seen[..., 4 - half : 5 + half, 4 - half : 5 + half]
    assert seen.count_nonzero() == kernels.count_nonzero()
    weights = kernels.flatten() * math.sqrt(3 * size**2)
    count = len(weights)
    assert abs(weights.mean()) < 5 / math.sqrt(count)
    assert abs(weights.std() - 1) < 5 / math.sqrt(2 * count)
    assert abs((weights**4).mean() - 3) < 5 * math.sqrt(96 / count)


def test_kernel_sizes_are_equally_likely():
    method, source = RandConv(mix=False), generator()
    pixel = torch.zeros(1, 3, 9, 9)
    pixel[:, :, 4, 4] = 1.0
    counts = dict.fromkeys(method.kernels, 0)
    for _ in range(2000):
        rows = view(method, pixel, source).abs().amax((0, 1, 3)) > 0
        counts[int(rows.sum())] += 1
    assert all(abs(count - 500) < 5 * math.sqrt(2000 * 0.25 * 0.75) for count in counts.values())


@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_the_image_itself_comes_with_its_probability(probability):
    method, source, given = RandConv(identity=probability), generator(), images()
    same = sum(torch.equal(view(method, given, source), given) for _ in range(1000))
    assert abs(same - 1000 * probability) <= 5 * math.sqrt(1000 * probability * (1 - probability))


def test_a_mix_lies_between_the_view_and_the_image():
    """Drawn by hand in the method's order: whether, which size, the kernel, the share."""
    given, shares = images(), []
    for seed in range(50):
        source = generator(seed)
        torch.rand((), generator=source)
        size = (1, 3, 5, 7)[int(torch.randint(4, (), generator=source))]
        weight = torch.randn(3, 3, size, size, generator=source).double() / math.sqrt(3 * size * size)
        share = torch.rand((), generator=source).item()
        shares.append(share)
        patches = F.unfold(given.double(), size, padding=size // 2)
        seen = (weight.flatten(1) @ patches).view(given.shape)
        actual = view(RandConv(), given, generator(seed))
        torch.testing.assert_close(actual.double(), share * seen + (1 - share) * given, rtol=1e-4, atol=1e-5)
        pure = view(RandConv(mix=False), given, generator(seed))
        torch.testing.assert_close(pure.double(), seen, rtol=1e-4, atol=1e-5)
    assert min(shares) < 0.2
    assert max(shares) > 0.8


def test_disagreement_is_the_mean_divergence_from_the_mean():
    answers = [torch.randn(5, 4, dtype=torch.float64, generator=generator(seed)) * 2 for seed in range(3)]
    probabilities = [answer.softmax(1).tolist() for answer in answers]
    total = 0.0
    for image in range(5):
        for one in probabilities:
            for kind in range(4):
                mean = sum(other[image][kind] for other in probabilities) / 3
                total += one[image][kind] * math.log(one[image][kind] / mean)
    assert disagreement(answers).item() == pytest.approx(total / (3 * 5), rel=1e-12)
    assert disagreement([answers[0]] * 3).item() == pytest.approx(0, abs=1e-12)


def test_certain_answers_give_finite_gradients():
    answers = [torch.tensor([[999.0, -999.0, -999.0]], requires_grad=True), torch.tensor([[-999.0, 999.0, -999.0]])]
    loss = disagreement(answers)
    assert loss.item() == pytest.approx(math.log(2))
    loss.backward()
    assert answers[0].grad.isfinite().all()


@pytest.mark.parametrize("views", ["paper", "released"])
def test_views_come_from_the_image_or_from_the_first(views):
    method, given, source = RandConv(views=views), images(), generator(3)
    first = view(method, given, source)
    base = first if views == "released" else given
    expected = [first, view(method, base, source), view(method, base, source)]
    for actual, wanted in zip(method.views_of(given, generator(3)), expected, strict=True):
        assert torch.equal(actual, wanted)


def test_without_consistency_there_is_one_view():
    assert len(RandConv(consistency=0.0).views_of(images(), generator())) == 1
