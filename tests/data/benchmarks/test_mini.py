"""The benchmarks that need no download."""

import pytest
import torch

from xcnorm import data
from xcnorm.errors import UserError

# One process for all of it: what it starts with is dear.
pytestmark = pytest.mark.xdist_group("data_benchmarks_mini")


@pytest.fixture(scope="module")
def digits():
    return data.load("digits-mini")


def test_digits_mini(digits):
    assert torch.equal(digits.train.labels.bincount(), torch.full((10,), 400))
    assert torch.equal(digits.validation.labels.bincount(), torch.full((10,), 100))
    assert {name: len(domain) for name, domain in digits.targets.items()} == {
        "optdigits": 1797,
        "mnist_m": 1000,
        "syn_rendered": 2000,
        "inverted": 1000,
        "low_contrast": 1000,
    }
    for domain in (digits.train, digits.validation, *digits.targets.values()):
        assert domain.images.dtype == torch.uint8
        assert domain.images.shape[2:] == (32, 32)
        assert domain.labels.unique().tolist() == list(range(10))


def test_targets_come_from_digits_that_training_never_saw(digits):
    seen = {image.numpy().tobytes() for image in digits.train.images}
    assert len(seen) == len(digits.train)  # no digit is there twice
    assert not any(image.numpy().tobytes() in seen for image in digits.validation.images)
    assert torch.equal(255 - digits.targets["inverted"].images, digits.validation.images)


def test_everybody_meets_the_same_targets(digits):
    again = data.load("digits-mini")
    for name, domain in digits.targets.items():
        assert torch.equal(domain.images, again.targets[name].images)


def test_cifar10c_mini():
    benchmark = data.load("cifar10c-mini", seed=3)
    assert list(benchmark.targets) == [f"{name}/{s}" for name in data.corruptions.names() for s in range(1, 6)]
    clean = benchmark.validation
    assert clean.images.shape == (250, 3, 32, 32)
    assert torch.equal(clean.labels.bincount(), torch.full((10,), 25))
    target = benchmark.targets["gaussian_noise/5"]
    assert torch.equal(target.labels, clean.labels)
    assert torch.equal(target.images[:9], data.corruptions.corrupt(clean.images[:9], "gaussian_noise", 5, seed=3))


def test_an_unknown_target_is_a_key_error():
    with pytest.raises(KeyError):
        data.load("cifar10c-mini").targets["fog/6"]


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XCNORM_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(UserError, match=r"cannot write .*XCNORM_CACHE"):
        data.load("camelyon17-mini")


def test_camelyon17_mini(tmp_path, monkeypatch):
    monkeypatch.setenv("XCNORM_CACHE", str(tmp_path))
    first = data.load("camelyon17-mini", source=0)
    last = data.load("camelyon17-mini", source=4)
    assert list(first.targets) == ["centre1", "centre2", "centre3", "centre4"]
    assert list(last.targets) == ["centre0", "centre1", "centre2", "centre3"]
    assert first.train.images.shape[1:] == (3, 96, 96)
    for benchmark in (first, last):
        assert benchmark.card.metric == "auroc"
        for domain in (benchmark.train, benchmark.validation, benchmark.targets["centre2"]):
            assert domain.labels.unique().tolist() == [0, 1]
    # A target is all of its hospital, training and validation images together.
    assert len(last.targets["centre0"]) == len(first.train) + len(first.validation)
    with pytest.raises(UserError, match="0 to 4"):
        data.load("camelyon17-mini", source=5)
