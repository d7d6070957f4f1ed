import numpy as np
import pytest
import torch

from xcnorm import data
from xcnorm.errors import UserError


@pytest.fixture
def root(tmp_path):
    slides, count = 30, 300
    random = np.random.default_rng(0)
    slide = np.arange(count) % slides
    np.savez(
        tmp_path / "breakhis400x_96x96.npz",
        images=random.integers(0, 256, (count, 8, 8, 3), dtype=np.uint8),
        labels=(slide % 2).astype(np.uint8),
        slide=slide.astype(np.uint8),
        stain_group=(slide // 10).astype(np.uint8),
    )
    return tmp_path


def slides_of(domain, root):
    with np.load(root / "breakhis400x_96x96.npz") as file:
        known = {image.tobytes(): slide for image, slide in zip(file["images"], file["slide"], strict=True)}
    return {int(known[image.permute(1, 2, 0).contiguous().numpy().tobytes()]) for image in domain.images}


def test_groups_are_domains(root):
    benchmark = data.load("breakhis", root)
    assert {name: len(domain) for name, domain in benchmark.targets.items()} == {"pale": 100, "strong": 100}
    assert slides_of(benchmark.targets["pale"], root) == set(range(10, 20))
    assert slides_of(benchmark.targets["strong"], root) == set(range(20, 30))


def test_no_slide_is_on_both_sides(root):
    benchmark = data.load("breakhis", root, validation=0.3)
    train, held_out = slides_of(benchmark.train, root), slides_of(benchmark.validation, root)
    assert train | held_out == set(range(10))
    assert not train & held_out
    for domain in (benchmark.train, benchmark.validation):
        assert domain.labels.unique().tolist() == [0, 1]


def test_the_seed_chooses_the_slides(root):
    chosen = {frozenset(slides_of(data.load("breakhis", root, seed=seed).validation, root)) for seed in range(8)}
    assert len(chosen) > 1


def test_another_source(root):
    benchmark = data.load("breakhis", root, source="strong")
    assert list(benchmark.targets) == ["medium", "pale"]
    assert slides_of(benchmark.train, root) < set(range(20, 30))


@pytest.mark.parametrize(
    ("options", "words"), [({"source": "pail"}, "did you mean 'pale'"), ({"validation": 1}, "between")]
)
def test_bad_options(root, options, words):
    with pytest.raises(UserError, match=words):
        data.load("breakhis", root, **options)


def test_an_array_of_another_length(root):
    path = root / "breakhis400x_96x96.npz"
    with np.load(path) as file:
        arrays = dict(file)
    arrays["slide"] = arrays["slide"][:-1]
    np.savez(path, **arrays)
    with pytest.raises(UserError, match="slide must be a whole number for each of 300 images"):
        data.load("breakhis", root)


@pytest.mark.parametrize("groups", [np.zeros(300, np.uint8), np.full(300, "pale")])
def test_groups_that_make_no_sense(root, groups):
    path = root / "breakhis400x_96x96.npz"
    with np.load(path) as file:
        arrays = dict(file)
    arrays["stain_group"] = groups
    np.savez(path, **arrays)
    with pytest.raises(UserError, match="stain"):
        data.load("breakhis", root)


def test_some_slides_are_left_to_train_on(root):
    benchmark = data.load("breakhis", root, source="strong", validation=0.99)
    assert benchmark.train.labels.unique().tolist() == [0, 1]


def test_labels_follow_images(root):
    benchmark = data.load("breakhis", root)
    assert torch.equal(benchmark.targets["pale"].labels, torch.arange(300)[(torch.arange(300) % 30) // 10 == 1] % 2)
