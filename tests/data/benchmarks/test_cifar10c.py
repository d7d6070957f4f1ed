from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.data.benchmarks.roots import fill
from xcnorm import data
from xcnorm.cli import main
from xcnorm.data.benchmarks import cifar10c
from xcnorm.data.catalogue import BENCHMARKS
from xcnorm.errors import UserError

TRAIN = [f"cifar10_train_{number}of5" for number in range(1, 6)]


@pytest.fixture
def root(tmp_path):
    fill(tmp_path, *TRAIN, "cifar10_test")
    return tmp_path


@pytest.fixture
def two_test_images(root, monkeypatch):
    """The published grid of ten thousand images is too large for a test."""
    test = replace(cifar10c._TEST, forms=tuple(replace(form, count=None) for form in cifar10c._TEST.forms))
    parts = tuple(test if part is cifar10c._TEST else part for part in BENCHMARKS["cifar10c"].parts)
    monkeypatch.setattr(cifar10c, "_TEST", test)
    monkeypatch.setitem(BENCHMARKS._items, "cifar10c", replace(BENCHMARKS["cifar10c"], parts=parts))
    data.readers.write_npz(root / "cifar10_test.npz", torch.zeros(2, 3, 32, 32, dtype=torch.uint8), torch.arange(2))


def official(root, names=("fog", "snow"), images=2):
    folder = root / "CIFAR-10-C"
    folder.mkdir()
    random = np.random.default_rng(0)
    for name in names:
        np.save(folder / f"{name}.npy", random.integers(0, 256, (5 * images, 32, 32, 3), dtype=np.uint8))
    np.save(folder / "labels.npy", np.tile(np.arange(images), 5).astype(np.uint8))
    return folder


def test_without_the_published_files_they_are_made(root):
    benchmark = data.load("cifar10c", root, seed=1)
    assert benchmark.title == "CIFAR-10-C (regenerated)"
    assert len(benchmark.train) == 50000
    assert len(benchmark.targets) == 95
    made = benchmark.targets["contrast/5"]
    assert made.note
    assert torch.equal(made.images, data.corruptions.corrupt(benchmark.validation.images, "contrast", 5, seed=1))
    assert torch.equal(made.labels, benchmark.validation.labels)


def test_the_five_parts_are_in_order(root):
    parts = torch.cat([data.readers.read_npz(root / f"{name}.npz").images for name in TRAIN])
    assert torch.equal(data.load("cifar10c", root).train.images, parts)


def test_the_published_files_are_taken_where_they_are(root, two_test_images):
    folder = official(root)
    benchmark = data.load("cifar10c", root)
    assert benchmark.title == "CIFAR-10-C"
    assert list(benchmark.targets) == [f"{name}/{severity}" for name in ("snow", "fog") for severity in range(1, 6)]
    stored = np.load(folder / "fog.npy").transpose(0, 3, 1, 2)
    for severity in (1, 5):
        domain = benchmark.targets[f"fog/{severity}"]
        assert np.array_equal(domain.images.numpy(), stored[2 * severity - 2 : 2 * severity])
        assert domain.labels.tolist() == [0, 1]
    assert len(benchmark.missing) == 17
    assert "contrast.npy" in benchmark.missing["contrast"]


def test_verify_names_the_corruptions_that_are_missing(root, two_test_images, capsys):
    official(root)
    assert main(["data", "verify", "cifar10c", "--data", str(root)]) == 0  # targets may be missing
    out = capsys.readouterr().out
    assert "CIFAR-10-C: ok" in out
    assert "CIFAR-10-C contrast: missing" in out
    assert "CIFAR-10-C fog" not in out


def test_an_empty_folder_is_not_the_published_grid(root):
    (root / "CIFAR-10-C").mkdir()
    assert data.load("cifar10c", root).title == "CIFAR-10-C (regenerated)"


def test_a_grid_of_other_images_is_refused(root):
    official(root)  # of two images, where the test set has ten thousand
    with pytest.raises(UserError, match="belongs to other images"):
        data.load("cifar10c", root)


def test_verify_knows_the_checksums_of_the_batches(root, capsys):
    for name in TRAIN:
        (root / f"{name}.npz").unlink()
    folder = root / "cifar-10-batches-py"
    folder.mkdir()
    for name in ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"):
        (folder / name).write_bytes(b"something")
    assert main(["data", "verify", "cifar10c", "--data", str(root)]) == 2
    assert "data_batch_1 is damaged or another version" in capsys.readouterr().out


def test_regenerated_on_demand(root):
    official(root)
    assert data.load("cifar10c", root, grid="regenerated").title == "CIFAR-10-C (regenerated)"


def test_official_or_nothing(root):
    with pytest.raises(UserError, match=r"CIFAR-10-C is not in .*xcnorm data download cifar10c"):
        data.load("cifar10c", root, grid="official")


def test_a_damaged_grid_is_an_error_at_once(root, two_test_images):
    folder = official(root)
    (folder / "fog.npy").write_bytes((folder / "fog.npy").read_bytes()[:-1])
    with pytest.raises(UserError, match=r"fog\.npy"):
        data.load("cifar10c", root)


def test_frost_is_taken_from_the_data_root(root):
    pictures = {f"frost{number}": np.full((200, 210, 3), 40 * number, np.uint8) for number in range(1, 7)}
    plain = data.load("cifar10c", root).targets["frost/5"].images
    assert "frost/5" in data.load("cifar10c", root).targets
    np.savez(root / "frost_overlays.npz", **pictures)
    frosted = data.load("cifar10c", root)
    clean = frosted.validation.images[:1].float()
    images = frosted.targets["frost/5"].images
    assert not torch.equal(images, plain)
    # Flat pictures add a flat amount: 0.75 of the image plus 0.45 of one of the first five.
    expected = [(0.75 * clean + 0.45 * 40 * number).clamp(0, 255) for number in range(1, 6)]
    assert any((images[:1].float() - one).abs().max() <= 1 for one in expected)


def test_frost_from_picture_files(root):
    from PIL import Image

    (root / "frost").mkdir()
    Image.new("RGB", (210, 200), (0, 0, 0)).save(root / "frost" / "black.png")
    benchmark = data.load("cifar10c", root)
    clean = benchmark.validation.images.float()
    assert (benchmark.targets["frost/1"].images.float() - clean).abs().max() <= 1


def test_unknown_grid(root):
    with pytest.raises(UserError, match="unknown grid"):
        data.load("cifar10c", root, grid="offical")
