import pytest
import torch

from tests.data.benchmarks.roots import COUNTS, fill
from xcnorm import data
from xcnorm.data.readers import read_npz
from xcnorm.errors import UserError

# One process for all of it: what it starts with is dear.
pytestmark = pytest.mark.xdist_group("data_benchmarks_digits")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("root")
    fill(folder, *COUNTS)
    return folder


@pytest.fixture(scope="module")
def digits(root):
    return data.load("digits", root)


def test_source_and_targets(digits):
    assert len(digits.train) == len(digits.validation) == 10000
    assert {name: len(digits.targets[name]) for name in digits.targets} == {
        "svhn": 26032,
        "mnist_m": 9001,
        "usps": 2007,
        "syn_rendered": 9553,
    }
    for domain in (digits.train, digits.validation, *digits.targets.values()):
        assert domain.images.dtype == torch.uint8
        assert domain.images.shape[2:] == (32, 32)
        assert domain.labels.dtype == torch.int64
        assert set(domain.labels.tolist()) == set(range(10))


def test_a_missing_target_is_reported_and_left_out(digits):
    assert list(digits.missing) == ["syn"]
    assert "synth_test_32x32.mat" in digits.missing["syn"]
    assert "--from-folder" in digits.missing["syn"]  # it can only be had by hand


def test_a_copy_that_was_shrunk_says_so(digits):
    assert "28-pixel" in digits.targets["svhn"].note
    assert digits.targets["usps"].note == ""


def test_a_missing_source_is_an_error(tmp_path):
    with pytest.raises(UserError, match=r"MNIST.*xcnorm data download digits"):
        data.load("digits", tmp_path)


def test_a_pair_of_which_one_file_is_missing(tmp_path):
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(b"")
    with pytest.raises(
        UserError, match=r"train-images-idx3-ubyte.gz is there, MNIST/raw/train-labels-idx1-ubyte.gz is"
    ):
        data.load("digits", tmp_path)


def test_a_damaged_target_is_an_error(root, tmp_path):
    for file in root.iterdir():
        (tmp_path / file.name).symlink_to(file)
    (tmp_path / "usps_test.npz").unlink()
    (tmp_path / "usps_test.npz").write_bytes((root / "usps_test.npz").read_bytes()[:1000])
    with pytest.raises(UserError, match=r"usps_test\.npz"):
        data.load("digits", tmp_path)


def test_another_number_of_images_is_an_error(root, tmp_path):
    for file in root.iterdir():
        (tmp_path / file.name).symlink_to(file)
    (tmp_path / "usps_test.npz").unlink()
    (tmp_path / "usps_test.npz").symlink_to(root / "mnist_m_test.npz")
    with pytest.raises(UserError, match=r"usps_test\.npz is not USPS: it holds 9,001 images, not 2,007"):
        data.load("digits", tmp_path)


def test_the_other_subset_needs_more_than_the_first_images(root):
    with pytest.raises(UserError, match="needs all 60,000"):
        data.load("digits", root, subset="tf_5000_15000")


def test_subsets_of_the_whole_training_set(root, tmp_path):
    for file in root.iterdir():
        (tmp_path / file.name).symlink_to(file)
    images = torch.arange(60000 * 4).view(-1, 1, 2, 2).remainder(251).to(torch.uint8)
    data.readers.write_npz(tmp_path / "mnist_train.npz", images, torch.arange(60000) % 10)
    from xcnorm.data.transforms import resize

    first = data.load("digits", tmp_path)
    later = data.load("digits", tmp_path, subset="tf_5000_15000")
    assert torch.equal(first.train.images, resize(images[:10000], 32))
    assert torch.equal(later.train.images, resize(images[5000:15000], 32))
    assert torch.equal(later.train.labels, torch.arange(5000, 15000) % 10)


def test_the_other_mnist_m_is_not_taken_for_the_first(root):
    assert "keras_mnistm.pkl.gz" in data.load("digits", root, mnist_m="keras_10000").missing["mnist_m"]


@pytest.mark.parametrize("option", ["subset", "mnist_m", "resample"])
def test_unknown_choices(root, option):
    with pytest.raises(UserError, match="unknown"):
        data.load("digits", root, **{option: "no"})


def test_images_are_those_of_the_file(root, digits):
    stored = read_npz(root / "mnist_m_test.npz")
    assert torch.equal(digits.targets["mnist_m"].images, data.transforms.resize(stored.images, 32))
    assert torch.equal(digits.targets["mnist_m"].labels, stored.labels)
